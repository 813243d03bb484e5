//! How a command ends: one documented number for each kind of end.

use std::error::Error;
use std::process::ExitCode;

use crate::chain::Chain;

/// The exit codes. They are public interface: scripts and CI jobs rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// 0: it is done.
    Ok,
    /// 1: it is done, and there are findings or differences.
    Findings,
    /// 2: the flags, variables or settings file are wrong.
    Usage,
    /// 3: what was asked for is not there, or there is nothing to work on.
    NotFound,
    /// 4: the cluster or the git server cannot be reached or refuses.
    Unavailable,
    /// 70: a bug, or a machine that does not work (the number is that of `sysexits.h`).
    Internal,
}

/// The codes as the help shows them.
pub(crate) const HELP: &str = "\
Exit codes: 0 done, 1 findings or differences, 2 wrong usage or settings, 3 not found,
4 cluster or git server unavailable, 70 internal error";

impl ExitStatus {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Unavailable => 4,
            Self::Internal => 70,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

/// Why a command did not do what was asked, and how it ends for that.
#[derive(Debug)]
pub struct Failure {
    status: ExitStatus,
    message: String,
}

impl Failure {
    /// The flags, variables or file are wrong.
    pub fn usage(error: impl Error + 'static) -> Self {
        Self::new(ExitStatus::Usage, error)
    }

    /// The cluster or the git server cannot be reached or refuses.
    pub fn unavailable(error: impl Error + 'static) -> Self {
        Self::new(ExitStatus::Unavailable, error)
    }

    /// Something is there that must not be, or a machine does not work.
    pub fn internal(error: impl Error + 'static) -> Self {
        Self::new(ExitStatus::Internal, error)
    }

    /// A failure with an error and all its causes.
    pub fn new(status: ExitStatus, error: impl Error + 'static) -> Self {
        Self { status, message: Chain(&error).to_string() }
    }

    /// A failure with a sentence of its own.
    pub fn message(status: ExitStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// How the command ends.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// What is told: a fragment, hints on lines of their own.
    pub fn text(&self) -> &str {
        &self.message
    }
}
