//! One connection, a few round trips, one fetch call and one push call.
//!
//! Every call ends: libgit2 waits for ever by default, so limits are set for the whole process before the
//! first call. `git://` is libgit2's own affair; http and ssh are carried by [`wire`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use git2::{AutotagOption, ErrorClass, ErrorCode, FetchOptions, Oid, PushOptions, RemoteCallbacks, RemoteRedirect};

use super::address::{Address, Place};
use super::error::{self, Failure};
use super::wire::{self, Fault};

/// How long the network may take. libgit2 keeps the first two for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// For one TCP connection to be made.
    pub connect: Duration,
    /// For the server to send its next byte. Hooks run in silence, so this is also what a hook may take.
    pub silence: Duration,
    /// For one whole call, whatever trickles in: the bound for a first clone.
    pub total: Duration,
}

impl Default for NetworkLimits {
    /// 10 s, 60 s, 15 min: a host that is gone is noticed at once, a slow hook is waited for, and a clone of
    /// a gigabyte over 10 Mbit/s (14 min) still gets through.
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), silence: Duration::from_secs(60), total: Duration::from_secs(15 * 60) }
    }
}

static LIMITS: OnceLock<NetworkLimits> = OnceLock::new();

/// Sets the limits of all git network calls of this process and returns those in force. The first call
/// decides: later ones change nothing, because libgit2 keeps the values in plain globals.
#[expect(unsafe_code, reason = "libgit2 keeps the timeouts in unsynchronised globals; see the safety comment")]
pub fn limit_network(limits: NetworkLimits) -> NetworkLimits {
    *LIMITS.get_or_init(|| {
        let millis = |limit: Duration| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
        // SAFETY: the two setters and the list of transports are process-wide without a lock. `OnceLock` runs this once, and
        // every network call of this crate goes through a `Mirror`, whose constructor calls this function
        // first; so no other thread can be reading them yet.
        let set = unsafe {
            git2::opts::set_server_connect_timeout_in_milliseconds(millis(limits.connect))
                .and_then(|()| git2::opts::set_server_timeout_in_milliseconds(millis(limits.silence)))
                .and_then(|()| wire::register())
        };
        debug_assert!(set.is_ok(), "libgit2 accepts every positive timeout and a transport of a new scheme");
        limits
    })
}

/// Asks a running network call to end at its next sign of life.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The refs of a remote by full name; an annotated tag also under `<name>^{}`, as what it points to.
pub(super) type Advertised = BTreeMap<String, Oid>;

/// How much of the past a fetch brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// What leads from what is here to what is new.
    Since,
    /// Nothing but the commits that are asked for.
    Tip,
    /// Everything.
    Whole,
}

impl Depth {
    /// As libgit2 counts.
    fn commits(self) -> i32 {
        match self {
            Self::Since => 0,
            Self::Tip => 1,
            // What git itself sends for "all of it".
            Self::Whole => i32::MAX,
        }
    }
}

/// Reads the refs of a remote and brings here what `refs` (full names, or a folder with `/*`) need and the
/// mirror has not: one connection, and only its first round trip where nothing is missing. Moves no refs.
pub(super) fn fetch(
    mirror: &git2::Repository,
    address: &Address,
    refs: &[&str],
    depth: Depth,
    stop: &Stop,
) -> Result<Advertised, Failure> {
    let fetched = carried(address, stop, |url| {
        let mut callbacks = callbacks(stop);
        callbacks.sideband_progress(|_| !stop.is_set());
        let mut options = FetchOptions::new();
        options
            .remote_callbacks(callbacks)
            .download_tags(AutotagOption::None)
            .update_fetchhead(false)
            .depth(depth.commits())
            .follow_redirects(RemoteRedirect::None);
        let mut remote = mirror.remote_anonymous(url)?;
        // A pattern needs a target, which nothing is written to: a download moves no refs.
        let specs: Vec<String> = refs.iter().map(|name| format!("{name}:{name}")).collect();
        remote.download(&specs, Some(&mut options))?;
        let heads = remote.list()?;
        Ok(heads.iter().map(|head| (head.name().to_owned(), head.oid())).collect())
    });
    fetched.or_else(|(error, fault)| match fault {
        // Few servers cannot leave out the past, and those that cannot say so before anything is sent.
        None if depth == Depth::Tip && error.message().contains("support shallow") => {
            fetch(mirror, address, refs, Depth::Since, stop)
        }
        Some(fault) => Err(Failure::Known(fault.error)),
        None => Err(Failure::of_network(error)),
    })
}

/// Runs `work` with the URL by which libgit2 reaches the repository.
fn carried<T>(
    address: &Address,
    stop: &Stop,
    work: impl FnOnce(&str) -> Result<T, git2::Error>,
) -> Result<T, (git2::Error, Option<Fault>)> {
    match address.place() {
        Place::Git(url) => work(url).map_err(|error| (error, None)),
        _ => wire::carry(address, limit_network(NetworkLimits::default()), stop, || work(wire::URL)),
    }
}

/// What came back from a push.
#[derive(Debug)]
pub(super) enum Answer {
    /// The server says that the branch is at the new commit.
    Accepted,
    /// The branch was not where it was expected, so nothing was sent. `None`: it does not exist.
    NotAsExpected(Option<Oid>),
    /// The server says no, in these words.
    Rejected(String),
    /// No answer that can be trusted.
    Broken(Fault),
}

/// Sends `new` to `branch` (a full ref name), never by force, and only where the branch is at `expected`.
pub(super) fn push(
    mirror: &git2::Repository,
    address: &Address,
    branch: &str,
    new: Oid,
    expected: Option<Oid>,
    stop: &Stop,
) -> Answer {
    let found: RefCell<Option<Option<Oid>>> = RefCell::new(None);
    let status: RefCell<Option<Option<String>>> = RefCell::new(None);
    let words: RefCell<Vec<u8>> = RefCell::new(Vec::new());
    let pushed = carried(address, stop, |url| {
        let mut callbacks = callbacks(stop);
        callbacks.push_negotiation(|updates| {
            let at = updates.first().map(git2::PushUpdate::src).filter(|oid| !oid.is_zero());
            if at == expected {
                return Ok(());
            }
            *found.borrow_mut() = Some(at);
            Err(git2::Error::new(ErrorCode::NotFastForward, ErrorClass::Reference, "the branch has moved"))
        });
        callbacks.push_update_reference(|name, refusal| {
            if name == branch {
                *status.borrow_mut() = Some(refusal.map(str::to_owned));
            }
            Ok(())
        });
        callbacks.sideband_progress(|bytes| {
            let mut words = words.borrow_mut();
            let room = MAX_SERVER_WORDS.saturating_sub(words.len());
            words.extend_from_slice(&bytes[..bytes.len().min(room)]);
            !stop.is_set()
        });
        let mut options = PushOptions::new();
        options.remote_callbacks(callbacks).follow_redirects(RemoteRedirect::None);
        mirror.remote_anonymous(url)?.push(&[format!("{new}:{branch}")], Some(&mut options))
    });

    if let Some(at) = found.into_inner() {
        return Answer::NotAsExpected(at);
    }
    // libgit2 returns Ok for a push whose only ref was refused; the status of the ref is the answer.
    match (status.into_inner(), pushed) {
        (Some(None), Ok(())) => Answer::Accepted,
        (Some(Some(refusal)), _) => Answer::Rejected(address.scrub(&sentence(&refusal, &words.into_inner()))),
        (_, Err((error, fault))) => Answer::Broken(fault.unwrap_or_else(|| error::fault(address, &error))),
        (None, Ok(())) => Answer::Broken(error::fault(
            address,
            &git2::Error::new(
                ErrorCode::GenericError,
                ErrorClass::Net,
                "the server did not say what became of the branch",
            ),
        )),
    }
}

/// What a server may say about a push before we stop listening: 4 KiB is more than a screen, and a hook's
/// words go into a status and an event.
const MAX_SERVER_WORDS: usize = 4096;

/// The status of the ref and what the hook printed, in one line.
fn sentence(refusal: &str, printed: &[u8]) -> String {
    let printed = String::from_utf8_lossy(printed);
    let lines: Vec<&str> = printed.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { refusal.to_owned() } else { format!("{refusal}: {}", lines.join(" ")) }
}

/// What every call needs: a way to stop.
fn callbacks(stop: &Stop) -> RemoteCallbacks<'_> {
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(|_| !stop.is_set());
    callbacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hook_prints_is_part_of_the_refusal() {
        assert_eq!(sentence("pre-receive hook declined", b""), "pre-receive hook declined");
        assert_eq!(
            sentence("pre-receive hook declined", b"main is protected\nask the shop team\n"),
            "pre-receive hook declined: main is protected ask the shop team"
        );
    }
}
