//! The help of every command, word for word: it is the manual.

use crate::cli_support::serin;

macro_rules! help_of {
    ($($name:ident: $args:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let output = serin(&$args);
                assert_eq!(output.code, 0, "{}", output.stderr);
                assert_eq!(output.stderr, "");
                insta::assert_snapshot!(output.stdout);
            }
        )*
    };
}

help_of! {
    help_of_serin: ["--help"];
    help_of_run: ["run", "--help"];
    help_of_demo: ["demo", "--help"];
    help_of_diff: ["diff", "--help"];
    help_of_status: ["status", "--help"];
    help_of_check: ["check", "--help"];
    help_of_crds: ["crds", "--help"];
}

#[test]
fn every_command_has_its_help_here() {
    let help = serin(&["--help"]).stdout;
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let names: Vec<&str> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["run", "demo", "diff", "status", "check", "crds", "help"], "add the new command to this file");
}
