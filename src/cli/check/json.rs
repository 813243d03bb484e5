//! For programs. Public interface: fields are added, and none is changed or removed without a new `version`.

use serde::Serialize;

use crate::cli::check::Report;
use crate::manifest::{Diagnostic, Severity};

/// The version of the form below.
const VERSION: u32 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    version: u32,
    files: usize,
    objects: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Finding<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding<'a> {
    rule: &'a str,
    severity: &'a str,
    file: &'a str,
    /// From 1.
    line: u32,
    /// From 1, in characters.
    column: u32,
    /// Behind the last character, on the same line; `null` where it is about no text in particular.
    end_column: Option<u32>,
    /// Such as `AgentRuntime shop/support-agent`.
    object: Option<String>,
    /// Such as `spec.rollout.steps[1].setWeight`; empty where it is about the whole document.
    field: &'a str,
    message: &'a str,
    hint: Option<&'a str>,
}

/// Renders the report.
pub(super) fn render(report: &Report) -> String {
    let document = Document {
        version: VERSION,
        files: report.files,
        objects: report.objects,
        errors: report.count(Severity::Error),
        warnings: report.count(Severity::Warning),
        findings: report.findings.iter().map(finding).collect(),
    };
    serde_json::to_string_pretty(&document).expect("numbers and texts are always JSON")
}

fn finding(diagnostic: &Diagnostic) -> Finding<'_> {
    Finding {
        rule: diagnostic.problem.as_str(),
        severity: diagnostic.severity.as_str(),
        file: diagnostic.file.as_str(),
        line: diagnostic.position.line,
        column: diagnostic.position.column,
        end_column: diagnostic.end_column(),
        object: diagnostic.object.as_ref().map(ToString::to_string),
        field: &diagnostic.field,
        message: &diagnostic.message,
        hint: diagnostic.hint.as_deref(),
    }
}
