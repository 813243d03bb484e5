//! Runs the binary as a user does, in an environment that holds nothing of the machine's.

use std::process::{Command, Stdio};

pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn serin(args: &[&str]) -> Output {
    serin_with(args, &[])
}

pub(crate) fn serin_with(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_serin"))
        .args(args)
        .env_clear()
        .envs(variables.iter().copied())
        // The width of help texts.
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built for this test");
    let text = |bytes| String::from_utf8(bytes).expect("Serin writes UTF-8");
    Output {
        code: output.status.code().expect("no signal ended it"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}
