//! The forms of the output, on files with everything that needs care.

use super::*;
use crate::ids::TreePath;
use crate::manifest::{Position, Problem, Snippet};

fn finding(file: &str, severity: Severity, message: &str) -> Diagnostic {
    Diagnostic {
        file: TreePath::new(file),
        position: Position { line: 3, column: 5 },
        severity,
        problem: if severity == Severity::Error { Problem::UnknownField } else { Problem::Suspicious },
        object: None,
        field: "spec.a".to_owned(),
        message: message.to_owned(),
        hint: Some("did you mean `b`?".to_owned()),
        snippet: Some(Snippet { text: "    nmae: x".to_owned(), mark: 4, mark_len: 4 }),
    }
}

fn report(findings: Vec<Diagnostic>) -> Report {
    Report { findings, files: 14, objects: 1 }
}

#[test]
fn text_counts_in_words_and_has_colours_only_when_asked() {
    let findings = vec![
        finding("a.yaml", Severity::Error, "unknown field"),
        finding("a.yaml", Severity::Warning, "not meant"),
        finding("b.yaml", Severity::Error, "bell \u{7} and escape \u{1b}[31m"),
    ];
    insta::assert_snapshot!(text::render(&report(findings.clone()), false), @r"
    a.yaml:3:5: spec.a: unknown field
      3 |     nmae: x
        |     ^^^^
      hint: did you mean `b`?
    a.yaml:3:5: warning: spec.a: not meant
      3 |     nmae: x
        |     ^^^^
      hint: did you mean `b`?
    b.yaml:3:5: spec.a: bell � and escape �[31m
      3 |     nmae: x
        |     ^^^^
      hint: did you mean `b`?

    2 errors, 1 warning in 14 files, 1 object
    ");
    let painted = text::render(&report(findings), true);
    assert!(painted.starts_with("\u{1b}[1ma.yaml:3:5: spec.a: unknown field\u{1b}[0m\n"), "{painted}");
    assert!(painted.contains("\u{1b}[1;31m^^^^\u{1b}[0m") && painted.contains("\u{1b}[1;33m^^^^\u{1b}[0m"));
    assert_eq!(text::render(&report(Vec::new()), true), "no problems in 14 files, 1 object\n");
}

#[test]
fn a_workflow_command_cannot_be_left_or_begun_by_what_stands_in_a_file() {
    let hostile = finding("a,b:c%\n::error::x.yaml", Severity::Warning, "100 %\r\n::set-output name=x::y");
    let commands = github::render(&report(vec![hostile]));
    insta::assert_snapshot!(commands, @r"
    ::warning file=a%2Cb%3Ac%25%0A%3A%3Aerror%3A%3Ax.yaml,line=3,col=5,endColumn=8,title=serin suspicious::spec.a: 100 %25%0D%0A::set-output name=x::y%0Ahint: did you mean `b`?
    1 warning in 14 files, 1 object
    ");
    // A property that is not known has no end.
    let mut bare = finding("a.yaml", Severity::Error, "x");
    bare.snippet = None;
    assert!(github::render(&report(vec![bare])).starts_with("::error file=a.yaml,line=3,col=5,title="));
}

#[test]
fn sarif_names_files_by_uri_and_keeps_to_what_code_scanning_takes() {
    let many = vec![finding("grüße/a b.yaml", Severity::Error, "x"); sarif::MAX_RESULTS + 1];
    let log: serde_json::Value = serde_json::from_str(&sarif::render(&report(many))).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), sarif::MAX_RESULTS);
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "gr%C3%BC%C3%9Fe/a%20b.yaml");
    assert_eq!(place["region"], serde_json::json!({"startLine": 3, "startColumn": 5, "endColumn": 9}));
    let outside = sarif::render(&report(vec![finding("/tmp/a.yaml", Severity::Error, "x")]));
    assert!(outside.contains("\"uri\": \"file:///tmp/a.yaml\""), "{outside}");
}

#[test]
fn a_file_without_the_right_to_read_it_is_no_file_that_is_not_there() {
    let path = || "prod/a.yaml".to_owned();
    let read = |kind: ErrorKind| unreadable(WorkingTreeError::Read { path: path(), source: kind.into() });
    let denied = read(ErrorKind::PermissionDenied);
    assert_eq!(
        (denied.status(), denied.text()),
        (ExitStatus::Internal, "prod/a.yaml cannot be read: permission denied")
    );
    assert_eq!(read(ErrorKind::NotFound).status(), ExitStatus::NotFound);
    let missing = unreadable(WorkingTreeError::Missing { path: path() });
    assert_eq!((missing.status(), missing.text()), (ExitStatus::NotFound, "prod/a.yaml is not there"));
    let owner = unreadable(WorkingTreeError::Repository { path: path(), why: "x".to_owned() });
    assert_eq!(owner.status(), ExitStatus::Unavailable);
}
