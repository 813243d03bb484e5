//! For GitHub Actions: workflow commands, which the runner turns into annotations of the pull request.
//!
//! <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>

use crate::cli::check::{Report, text};
use crate::manifest::Diagnostic;

/// Renders the report: a command for each finding, and the summary for the log.
pub(super) fn render(report: &Report) -> String {
    let mut commands: String = report.findings.iter().map(command).collect();
    commands.push_str(&text::summary(report));
    commands.push('\n');
    commands
}

fn command(finding: &Diagnostic) -> String {
    let place = finding.position;
    // GitHub's end is the last column, and not the one behind it.
    let end = finding.end_column().map(|end| format!(",endColumn={}", end.saturating_sub(1).max(place.column)));
    let properties = format!(
        "file={},line={},col={}{},title={}",
        escape_property(finding.file.as_str()),
        place.line,
        place.column,
        end.unwrap_or_default(),
        escape_property(&format!("serin {}", finding.problem.as_str()))
    );
    format!("::{} {properties}::{}\n", finding.severity.as_str(), escape(&message(finding)))
}

/// Field, message and hint as one text.
pub(super) fn message(finding: &Diagnostic) -> String {
    let field = if finding.field.is_empty() { String::new() } else { format!("{}: ", finding.field) };
    let hint = finding.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("{field}{}{hint}", finding.message)
}

/// What would end the command, or begin another one.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The same, and what ends a property.
fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}
