//! The only place that writes to stdout and, outside the log, to stderr.
//!
//! A reader that stops reading (`serin crds | head`) is no failure of ours, so a broken pipe ends the
//! output quietly instead of panicking as `println!` does.

use std::io::{self, IsTerminal, Write};

use crate::cli::exit::{ExitStatus, Failure};

/// Prints a result. It ends with a line break, whether `text` does or not.
///
/// # Errors
/// If stdout cannot be written for another reason than that its reader has gone.
pub fn print_result(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let line_break = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let written = write!(stdout, "{text}{line_break}").and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::internal(error)),
        _ => Ok(()),
    }
}

/// Whether somebody still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Somebody does.
    There,
    /// Nobody does.
    Gone,
}

/// Prints a part of a result that goes on, and says whether it is worth going on.
pub(crate) fn print_more(text: &str) -> Result<Reader, Failure> {
    let mut stdout = io::stdout().lock();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::internal(error)),
    }
}

/// Prints something that is told on the way, such as a hint, to stderr.
pub fn print_note(text: &str) {
    // There is nobody left to tell about a broken stderr.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints why a command failed, to stderr.
pub fn print_failure(failure: &Failure) {
    if failure.text().is_empty() {
        return;
    }
    let has_color = io::stderr().is_terminal() && allows_color();
    let label = if has_color { "\u{1b}[1;31merror:\u{1b}[0m" } else { "error:" };
    print_note(&format!("{label} {}", failure.text()));
}

/// A text on one line that cannot steer a terminal: what came from elsewhere is printed like this.
pub(crate) fn one_line(text: &str) -> String {
    let is_break = |c: char| c.is_whitespace() || c.is_control();
    text.split(is_break).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether what is printed on stdout may have colours: it is a terminal, and nobody asked for none.
pub(crate) fn has_color_on_stdout() -> bool {
    io::stdout().is_terminal() && allows_color() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// `NO_COLOR`, as <https://no-color.org> says.
fn allows_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints what clap says: help and version are results, everything else is a mistake.
pub(crate) fn print_usage(error: &clap::Error) -> Result<ExitStatus, Failure> {
    // There is nobody left to tell about a broken stdout or stderr.
    let _ = error.print();
    Ok(if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Ok })
}
