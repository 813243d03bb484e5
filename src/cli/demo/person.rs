//! The person of the demo: somebody with a clone and the git command line.
//!
//! The machine's and the user's git configuration stay out of it (signing, hooks, templates, other default branches), so
//! that the demo is the same everywhere.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus as ProcessEnd, Stdio};
use std::time::Duration;

use crate::cli::demo::folder::DemoFolder;
use crate::cli::exit::{ExitStatus, Failure};
use crate::clock::{Clock, SystemClock};

/// How long one git command may take. All of them work on a handful of small files; a file system that is slower than
/// this would not show anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// The configuration of the clone, so that commits by hand work on a machine where git was never used.
const CLONE_CONFIG: [(&str, &str); 4] =
    [("user.name", "You"), ("user.email", "you@example.com"), ("commit.gpgsign", "false"), ("pull.rebase", "true")];

/// Somebody who uses git.
pub(super) struct Person {
    repository: PathBuf,
    clone: PathBuf,
}

impl Person {
    /// Makes the bare repository of the folder and a clone of it, on a branch `main` without commits.
    ///
    /// # Errors
    /// If git fails.
    pub(super) fn with_clone_in(folder: &DemoFolder) -> Result<Self, Failure> {
        let person = Self { repository: folder.repository(), clone: folder.clone_folder() };
        let (repository, clone) = (path_text(&person.repository)?, path_text(&person.clone)?);
        // Older versions of git know no --initial-branch.
        run(Path::new("/"), &["init", "--quiet", "--bare", repository])?;
        run(&person.repository, &["symbolic-ref", "HEAD", "refs/heads/main"])?;
        run(Path::new("/"), &["clone", "--quiet", repository, clone])?;
        person.git(&["symbolic-ref", "HEAD", "refs/heads/main"])?;
        for (name, value) in CLONE_CONFIG {
            person.git(&["config", name, value])?;
        }
        Ok(person)
    }

    /// Runs git in the clone and returns what it printed.
    ///
    /// # Errors
    /// If it fails, with its own words, or takes too long.
    pub(super) fn git(&self, arguments: &[&str]) -> Result<String, Failure> {
        run(&self.clone, arguments)
    }

    /// The newest commit of a branch of the bare repository.
    pub(super) fn tip(&self, branch: &str) -> Result<Option<String>, Failure> {
        let name = format!("refs/heads/{branch}");
        let text = run(&self.repository, &["for-each-ref", "--format=%(objectname)", &name])?;
        Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// Runs git in the bare repository.
    pub(super) fn git_on_server(&self, arguments: &[&str]) -> Result<String, Failure> {
        run(&self.repository, arguments)
    }
}

/// Looks whether git is installed.
///
/// # Errors
/// If it is not.
pub(super) fn require_git() -> Result<(), Failure> {
    run(Path::new("/"), &["--version"]).map(drop)
}

fn run(folder: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let shown = format!("git {}", arguments.first().copied().unwrap_or_default());
    let mut command = hermetic_git();
    command.current_dir(folder).args(arguments);
    let finished = match finish(&mut command) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = "git is not installed, and the demo plays a person who uses it\n  \
                           hint: apt-get install git, or see https://git-scm.com";
            return Err(Failure::message(ExitStatus::NotFound, message));
        }
        finished => finished
            .map_err(|error| Failure::message(ExitStatus::Internal, format!("{shown} cannot be run: {error}")))?,
    };
    let Some((end, stdout, stderr)) = finished else {
        let message = format!("{shown} did not end within {} seconds", PATIENCE.as_secs());
        return Err(Failure::message(ExitStatus::Internal, message));
    };
    if end.success() {
        return Ok(stdout);
    }
    Err(Failure::message(ExitStatus::Internal, format!("{shown} failed: {}", stderr.trim())))
}

fn path_text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::message(ExitStatus::Usage, format!("the folder {} has a name that is no UTF-8", path.display()))
    })
}

/// git without the configuration of the machine and of the user.
fn hermetic_git() -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(name);
    }
    let fixed = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("LC_ALL", "C.UTF-8"),
    ];
    // Ctrl-C is for the demo; a git that it ended halfway would look like a failure.
    command.envs(fixed).process_group(0);
    command
}

/// Runs a command to its end; `None`: it took too long and was ended.
fn finish(command: &mut Command) -> io::Result<Option<(ProcessEnd, String, String)>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Both are read at once, or a child that fills the other pipe would wait for ever.
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let Some(end) = wait(&mut child)? else {
        // It may have ended in this moment; then there is nothing to kill.
        let _ = child.kill();
        child.wait()?;
        return Ok(None);
    };
    let text = |reader: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok(Some((end, text(stdout), text(stderr))))
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What cannot be read is missing from a text for people.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(child: &mut Child) -> io::Result<Option<ProcessEnd>> {
    let started = SystemClock.now();
    loop {
        if let Some(end) = child.try_wait()? {
            return Ok(Some(end));
        }
        if SystemClock.now().duration_since(started).unsigned_abs() > PATIENCE {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
