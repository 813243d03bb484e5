//! For people: each finding as the daemon logs it, and a line that counts them.

use crate::cli::check::Report;
use crate::manifest::{Diagnostic, Severity};

/// Renders the report, with colours or without.
pub(super) fn render(report: &Report, has_color: bool) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        // What stands in a file must not speak to the terminal.
        let plain: String =
            finding.render().chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
        if has_color {
            text.push_str(&paint(finding, &plain));
        } else {
            text.push_str(&plain);
        }
        text.push('\n');
    }
    if !report.findings.is_empty() {
        text.push('\n');
    }
    text.push_str(&summary(report));
    text.push('\n');
    text
}

/// How many of what in how many files.
pub(super) fn summary(report: &Report) -> String {
    let (errors, warnings) = (report.count(Severity::Error), report.count(Severity::Warning));
    let found: Vec<String> = [(errors, "error"), (warnings, "warning")]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| counted(number, word))
        .collect();
    let found = if found.is_empty() { "no problems".to_owned() } else { found.join(", ") };
    format!("{found} in {}, {}", counted(report.files, "file"), counted(report.objects, "object"))
}

fn counted(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[1;31m";
const YELLOW: &str = "\u{1b}[1;33m";
const CYAN: &str = "\u{1b}[36m";
const END: &str = "\u{1b}[0m";

fn paint(finding: &Diagnostic, plain: &str) -> String {
    let signal = if finding.is_error() { RED } else { YELLOW };
    let lines = plain.lines().enumerate().map(|(number, line)| match number {
        // The first line is bold up to the message; its place is the part that people look for.
        0 => format!("{BOLD}{line}{END}"),
        _ if line.trim_start().starts_with("hint: ") => format!("{CYAN}{line}{END}"),
        2 => match line.split_once('^') {
            Some((margin, mark)) => format!("{margin}{signal}^{mark}{END}"),
            None => line.to_owned(),
        },
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
