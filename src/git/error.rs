//! What libgit2 says, in the repository's own errors.
//!
//! libgit2 has one error type for a wrong password, a dead server and a full disk. Callers branch on the
//! difference, so it is told apart here and nowhere else. Invariant: every text that leaves this module went
//! through [`Address::scrub`], so no credential can appear in a log, an event or a status.

use git2::{ErrorClass, ErrorCode};

use super::RepositoryError;
use super::address::Address;
use super::wire::Fault;

/// Why a call on git data failed, before it is known what to do about it.
#[derive(Debug)]
pub(super) enum Failure {
    /// The other side, or the way to it.
    Remote(git2::Error),
    /// This side: the mirror's disk or its objects.
    Mirror(git2::Error),
    /// Already in the words of the seam.
    Known(RepositoryError),
}

impl Failure {
    /// The error that callers see.
    pub(super) fn into_error(self, address: &Address) -> RepositoryError {
        match self {
            Self::Remote(error) => remote_error(address, &error),
            Self::Mirror(error) => mirror_error(address, error.message()),
            Self::Known(error) => error,
        }
    }

    /// A failure of a network call: of the network, unless libgit2 stumbled over the mirror on the way.
    pub(super) fn of_network(error: git2::Error) -> Self {
        if is_damage(&error) { Self::Mirror(error) } else { Self::Remote(error) }
    }

    /// Whether the mirror's objects or refs are damaged, or locked for ever, so that only a new mirror helps.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Mirror(error) if is_damage(error))
    }
}

/// A full disk or a missing right is no damage: nothing would be won by deleting what is there. A lock is: nobody but who asks
/// may have one in a mirror, so it was left behind. That of a repository of somebody else is never asked about here.
fn is_damage(error: &git2::Error) -> bool {
    error.code() == ErrorCode::Locked
        || matches!(
            error.class(),
            ErrorClass::Odb | ErrorClass::Zlib | ErrorClass::Object | ErrorClass::Tree | ErrorClass::Reference
        )
}

/// An error of this machine.
pub(super) fn mirror_error(address: &Address, why: &str) -> RepositoryError {
    RepositoryError::Mirror { address: address.display().to_owned(), why: address.scrub(why) }
}

/// Edits or an author that no commit can be made of, or a mirror that cannot be read.
pub(super) fn commit_failure(address: &Address, error: git2::Error) -> Failure {
    match error.class() {
        ErrorClass::Odb | ErrorClass::Zlib | ErrorClass::Object => Failure::Mirror(error),
        _ => Failure::Known(RepositoryError::Commit {
            address: address.display().to_owned(),
            why: address.scrub(error.message()),
        }),
    }
}

/// Something that is not there.
pub(super) fn not_found(address: &Address, what: impl Into<String>) -> RepositoryError {
    RepositoryError::NotFound { what: what.into(), address: address.display().to_owned() }
}

/// The error of a network call.
fn remote_error(address: &Address, error: &git2::Error) -> RepositoryError {
    let why = address.scrub(error.message());
    let address_text = address.display().to_owned();
    match kind_of(error) {
        RemoteKind::NotFound => not_found(address, "the repository"),
        RemoteKind::Unreachable => RepositoryError::Unreachable { address: address_text, why },
        RemoteKind::Local => RepositoryError::Mirror { address: address_text, why },
    }
}

/// What libgit2 says of a call that it made by itself.
pub(super) fn fault(address: &Address, error: &git2::Error) -> Fault {
    Fault { error: remote_error(address, error), is_refusal: is_refusal(error) }
}

/// Whether an error of a push is the server saying no, as opposed to a connection that broke. Only
/// meaningful where the remote was reached again afterwards and had not moved.
fn is_refusal(error: &git2::Error) -> bool {
    let message = error.message();
    message.contains("unpacking the sent packfile failed")
        || message.starts_with("remote error:")
        || error.code() == ErrorCode::NotFastForward
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemoteKind {
    NotFound,
    Unreachable,
    Local,
}

fn kind_of(error: &git2::Error) -> RemoteKind {
    let message = error.message();
    if let Some(words) = message.strip_prefix("remote error: ") {
        let words = words.to_ascii_lowercase();
        if words.contains("not found") || words.contains("not exported") || words.contains("does not exist") {
            return RemoteKind::NotFound;
        }
        return RemoteKind::Unreachable;
    }
    if error.code() == ErrorCode::NotFound && matches!(error.class(), ErrorClass::Os | ErrorClass::Repository) {
        // A folder that is not there, or is no repository.
        return RemoteKind::NotFound;
    }
    match error.class() {
        ErrorClass::Net | ErrorClass::Http | ErrorClass::Ssl | ErrorClass::Ssh | ErrorClass::Callback => {
            RemoteKind::Unreachable
        }
        ErrorClass::Os if message.starts_with("failed to connect") || message.starts_with("failed to resolve") => {
            RemoteKind::Unreachable
        }
        _ if error.code() == ErrorCode::Eof || error.code() == ErrorCode::Certificate => RemoteKind::Unreachable,
        _ => RemoteKind::Local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: ErrorCode, class: ErrorClass, message: &str) -> git2::Error {
        git2::Error::new(code, class, message)
    }

    #[test]
    fn a_refused_connection_is_unreachable_and_a_full_disk_is_not() {
        let refused =
            error(ErrorCode::GenericError, ErrorClass::Os, "failed to connect to localhost: Connection refused");
        assert_eq!(kind_of(&refused), RemoteKind::Unreachable);
        let full = error(ErrorCode::GenericError, ErrorClass::Os, "failed to write chunk: No space left on device");
        assert_eq!(kind_of(&full), RemoteKind::Local);
        assert!(!Failure::Mirror(full).is_damage());
    }

    #[test]
    fn a_lock_in_the_mirror_is_damage_and_one_of_the_remote_is_not() {
        let locked =
            || error(ErrorCode::Locked, ErrorClass::Filesystem, "failed to lock file 'main.lock' for writing: ");
        assert!(Failure::Mirror(locked()).is_damage());
        assert!(Failure::of_network(locked()).is_damage());
        assert!(!Failure::Remote(locked()).is_damage());
    }

    #[test]
    fn a_pack_that_the_server_does_not_take_is_a_refusal_and_a_timeout_is_not() {
        let full = error(ErrorCode::GenericError, ErrorClass::Net, "remote error: unpacking the sent packfile failed");
        assert!(is_refusal(&full));
        let late = error(ErrorCode::Timeout, ErrorClass::Net, "could not read from socket: timed out");
        assert!(!is_refusal(&late));
    }
}
