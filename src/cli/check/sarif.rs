//! For code scanning: SARIF 2.1.0 as GitHub takes it.
//!
//! <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>, and what GitHub reads of it:
//! <https://docs.github.com/code-security/reference/code-scanning/sarif-support-for-code-scanning>.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::check::{Report, github};
use crate::manifest::{Diagnostic, Problem, Severity};

/// How many results GitHub takes in one run; it refuses a file with more.
pub(super) const MAX_RESULTS: usize = 25_000;

/// Renders the report.
pub(super) fn render(report: &Report) -> String {
    let rules: Vec<Value> = Problem::ALL.into_iter().map(rule).collect();
    let results: Vec<Value> = report.findings.iter().take(MAX_RESULTS).map(result).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "serin",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    serde_json::to_string_pretty(&log).expect("numbers and texts are always JSON")
}

fn rule(problem: Problem) -> Value {
    let level = if problem == Problem::Suspicious { Severity::Warning } else { Severity::Error };
    json!({
        "id": problem.as_str(),
        "shortDescription": {"text": problem.summary()},
        "help": {"text": "Each finding says what to do about it. `serin run` keeps the live state of an object with an error."},
        "defaultConfiguration": {"level": level.as_str()},
    })
}

fn result(finding: &Diagnostic) -> Value {
    let mut region = json!({"startLine": finding.position.line, "startColumn": finding.position.column});
    if let Some(end) = finding.end_column() {
        region["endColumn"] = end.into();
    }
    json!({
        "ruleId": finding.problem.as_str(),
        "ruleIndex": Problem::ALL.iter().position(|problem| *problem == finding.problem),
        "level": finding.severity.as_str(),
        "message": {"text": github::message(finding)},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(finding.file.as_str())},
            "region": region,
        }}],
    })
}

/// A path as a URI reference (RFC 3986): relative to the root of the repository, or a `file` URI where it lies elsewhere.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}
