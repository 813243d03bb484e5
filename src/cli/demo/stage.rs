//! Where the story is shown: texts, commands, diffs, and the rollout while it moves.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::demo::daemon::RunningDaemon;
use crate::cli::demo::folder::DemoFolder;
use crate::cli::demo::person::Person;
use crate::cli::demo::sight::{Sight, TITLES};
use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{has_color_on_stdout, print_result};
use crate::clock::{Clock, SystemClock};
use crate::ids::AgentKey;

/// How often the cluster is looked at. What stands shorter than that is not shown: nobody could read it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Lines stay below 100 columns, with the indent.
const TEXT_WIDTH: usize = 94;

/// Colours, where there is a terminal to show them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    has_color: bool,
}

impl Paint {
    /// No colours.
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { has_color: false };

    fn with(self, code: &str, text: &str) -> String {
        if self.has_color && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(super) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(super) fn blue(self, text: &str) -> String {
        self.with("34", text)
    }
}

/// What is shown, and what it is about.
pub(super) struct Stage<'a> {
    /// Where everything is.
    pub(super) folder: &'a DemoFolder,
    /// Who pushes.
    pub(super) person: &'a Person,
    /// Colours.
    pub(super) paint: Paint,
    daemon: Option<&'a RunningDaemon>,
    agent: AgentKey,
    started: Timestamp,
    known_tip: Option<String>,
    shown: Option<Sight>,
    told: BTreeSet<String>,
}

impl<'a> Stage<'a> {
    /// An empty stage.
    pub(super) fn new(folder: &'a DemoFolder, person: &'a Person, agent: AgentKey) -> Self {
        let paint = Paint { has_color: has_color_on_stdout() };
        let started = SystemClock.now();
        let (known_tip, shown, told) = (None, None, BTreeSet::new());
        Self { folder, person, paint, daemon: None, agent, started, known_tip, shown, told }
    }

    /// From now on the daemon can be watched, and time counts.
    pub(super) fn raise(&mut self, daemon: &'a RunningDaemon) {
        self.daemon = Some(daemon);
        self.started = SystemClock.now();
    }

    /// Prints lines as they are.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        print_result(&format!("{text}\n"))
    }

    /// Prints the title of a chapter.
    pub(super) fn title(&self, text: &str) -> Result<(), Failure> {
        let rule = "─".repeat(TEXT_WIDTH.saturating_sub(text.chars().count() + 4));
        self.say(&format!("\n{} {} {}\n", self.paint.dim("──"), self.paint.bold(text), self.paint.dim(&rule)))
    }

    /// Shows a command as it would be typed in the clone.
    pub(super) fn show_command(&self, arguments: &[&str]) -> Result<(), Failure> {
        let quoted: Vec<String> = arguments.iter().map(|argument| quote(argument)).collect();
        self.say(&format!("  {} {}", self.paint.dim("$"), self.paint.bold(&quoted.join(" "))))
    }

    /// Shows a git command, runs it in the clone, and gives back what it printed.
    pub(super) fn git(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.show_command(&[&["git"], arguments].concat())?;
        self.person.git(arguments)
    }

    /// Shows what git printed.
    pub(super) fn show_output(&self, text: &str) -> Result<(), Failure> {
        for line in text.lines() {
            let line = cut(&line.replace('\t', "    "), TEXT_WIDTH);
            let line = match line.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => self.paint.bold(&line),
                [b'+', ..] => self.paint.green(&line),
                [b'-', ..] => self.paint.red(&line),
                [b'@', b'@', ..] => self.paint.blue(&line),
                _ => line,
            };
            self.say(format!("    {line}").trim_end())?;
        }
        Ok(())
    }

    /// Notes the tip of main, which the person has just pushed: nobody needs to be told about it.
    pub(super) fn note_push(&mut self) -> Result<(), Failure> {
        self.known_tip = self.person.tip("main")?;
        Ok(())
    }

    /// Shows the titles of the lines that follow.
    pub(super) fn show_titles(&self) -> Result<(), Failure> {
        self.say(&format!("\n{}", self.paint.dim(TITLES)))
    }

    /// The next line is shown even where it is the same as the last.
    pub(super) fn forget(&mut self) {
        self.shown = None;
    }

    /// Shows the rollout while it moves, until `is_done`; what each commit on main by somebody else says, too.
    ///
    /// # Errors
    /// If that does not come within `patience`, saying what `what` was and how things stand instead.
    pub(super) fn follow(
        &mut self,
        what: &str,
        patience: Duration,
        mut is_done: impl FnMut(&Sight) -> bool,
    ) -> Result<(), Failure> {
        let begun = SystemClock.now();
        let mut before: Option<Sight> = None;
        loop {
            let now = SystemClock.now();
            let sight = self.look(now)?;
            // After the look: what is seen rests on commits that are there by now.
            self.show_commits(now)?;
            let is_done = is_done(&sight);
            let is_new = self.shown.as_ref().is_none_or(|shown| shown.line != sight.line);
            if is_new && !sight.line.is_blank() && (is_done || before.as_ref() == Some(&sight)) {
                self.say(&sight.line.render(self.paint, self.seconds(now)))?;
                self.shown = Some(sight.clone());
            }
            if is_done {
                return Ok(());
            }
            if now.duration_since(begun).unsigned_abs() > patience {
                return Err(self.in_vain(what, patience, &sight));
            }
            before = Some(sight);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits without showing anything.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub(super) fn wait(
        &self,
        what: &str,
        patience: Duration,
        mut is_done: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let begun = SystemClock.now();
        loop {
            let now = SystemClock.now();
            let sight = self.look(now)?;
            if is_done()? {
                return Ok(());
            }
            if now.duration_since(begun).unsigned_abs() > patience {
                return Err(self.in_vain(what, patience, &sight));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn look(&self, now: Timestamp) -> Result<Sight, Failure> {
        let Some(daemon) = self.daemon else { return Ok(Sight::default()) };
        if daemon.has_ended() {
            let message = format!("the daemon has ended\n  hint: its log is {}/serin.log", self.folder.shown());
            return Err(Failure::message(ExitStatus::Internal, message));
        }
        Ok(Sight::of(daemon.cluster(), &self.agent, now))
    }

    /// Tells about the commits on main that are news.
    fn show_commits(&mut self, now: Timestamp) -> Result<(), Failure> {
        let tip = self.person.tip("main")?;
        if tip == self.known_tip {
            return Ok(());
        }
        let new = match (&self.known_tip, &tip) {
            (Some(known), Some(tip)) => format!("{known}..{tip}"),
            _ => "main".to_owned(),
        };
        let log = ["log", "--reverse", "--format=%h%x00%an%x00%s", &new];
        for line in self.person.git_on_server(&log)?.lines() {
            let mut fields = line.split('\0');
            let mut next = || fields.next().unwrap_or_default();
            let (commit, author, subject) = (next(), next(), next());
            if !self.told.insert(commit.to_owned()) {
                continue;
            }
            let time = self.paint.dim(&format!("{:>5.1}s", self.seconds(now)));
            let text = cut(&format!("◆ {commit} by {author}: {subject}"), TEXT_WIDTH - 6);
            self.say(&format!("{time}  {}", self.paint.green(&text)))?;
        }
        self.known_tip = tip;
        Ok(())
    }

    fn seconds(&self, now: Timestamp) -> f64 {
        now.duration_since(self.started).as_secs_f64().max(0.0)
    }

    fn in_vain(&self, what: &str, patience: Duration, sight: &Sight) -> Failure {
        let state = match sight.message.as_str() {
            "" => "Serin says nothing about the agent".to_owned(),
            message => format!("Serin says about the agent: {message}"),
        };
        let message = format!(
            "waited {} seconds in vain until {what}; {state}\n  hint: the log of the daemon is {}/serin.log",
            patience.as_secs(),
            self.folder.shown()
        );
        Failure::message(ExitStatus::Internal, message)
    }
}

/// An argument as people type it.
fn quote(argument: &str) -> String {
    let is_plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,@^~=".contains(c));
    match argument.split_once('=') {
        _ if is_plain(argument) => argument.to_owned(),
        Some((flag, value)) if is_plain(flag) => format!("{flag}=\"{value}\""),
        _ => format!("\"{argument}\""),
    }
}

/// A text of at most `width` characters, with a sign where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        assert_eq!(quote("serin/status/demo:README.md"), "serin/status/demo:README.md");
        assert_eq!(quote("try support-pack 1.1.0"), "\"try support-pack 1.1.0\"");
        assert_eq!(quote("--format=%h %s"), "--format=\"%h %s\"");
        assert_eq!(quote(""), "\"\"");
    }

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(Paint { has_color: false }.green("a"), "a");
        assert_eq!(Paint { has_color: true }.green("a"), "\u{1b}[32ma\u{1b}[0m");
        assert_eq!(Paint { has_color: true }.green(""), "");
    }

    #[test]
    fn what_is_cut_shows_it() {
        assert_eq!(cut("four", 4), "four");
        assert_eq!(cut("a ◆ and more", 6), "a ◆ a…");
        assert_eq!(cut("word and more", 6), "word…");
    }
}
