//! How git talks to servers over http and ssh: libgit2 speaks the git protocol, and we carry what it says.
//!
//! libgit2's own transports keep certificate authorities and time limits for the whole process, say of a certificate
//! only that it is invalid and of a redirect only that there is one, and let the host key of a server be chosen by a
//! file in the home folder. Here every call has its own credentials, authorities and proxy, and every failure is told
//! where it happens, in words.
//!
//! libgit2 knows this as one transport for addresses of the scheme `serin`. What the call is about is not in that
//! address but beside the thread that makes it: see [`carry`].

mod http;
mod known_hosts;
mod proxy;
mod ssh;
mod tls;

pub use known_hosts::{HostKey, KnownHosts, Verdict};

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use git2::transport::Transport;
use git2::{ErrorClass, ErrorCode};

use super::RepositoryError;
use super::address::{Address, Place};
use super::transport::{NetworkLimits, Stop};

/// What a call is carried for.
pub(super) struct Call {
    address: Address,
    limits: NetworkLimits,
    stop: Stop,
    /// The first thing that went wrong.
    fault: Mutex<Option<Fault>>,
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// For whoever made the call.
    pub(super) error: RepositoryError,
    /// Whether the server has understood what was asked and does not do it, as opposed to not being able to.
    pub(super) is_refusal: bool,
}

/// The address by which libgit2 finds our transport.
pub(super) const URL: &str = "serin://remote/repository";

thread_local! {
    static CALL: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

/// Makes our transport known to libgit2.
///
/// # Safety
/// No other thread may be using libgit2's network yet.
#[expect(unsafe_code, reason = "libgit2 keeps its transports in an unsynchronised list; see the safety section")]
pub(super) unsafe fn register() -> Result<(), git2::Error> {
    let factory = |remote: &git2::Remote<'_>| {
        let call = CALL.with_borrow(Clone::clone).ok_or_else(|| {
            git2::Error::new(ErrorCode::Invalid, ErrorClass::Net, "this address is for calls of Serin only")
        })?;
        match call.address.place() {
            Place::Ssh(_) => Transport::smart(remote, false, ssh::Ssh::new(call)),
            _ => Transport::smart(remote, true, http::Http::new(call)),
        }
    };
    // SAFETY: that of this function.
    unsafe { git2::transport::register("serin", factory) }
}

/// Runs `work`, which has libgit2 call [`URL`] on this thread, for `address`. Where our side of the call failed, that
/// is the error, and not what libgit2 makes of it.
pub(super) fn carry<T>(
    address: &Address,
    limits: NetworkLimits,
    stop: &Stop,
    work: impl FnOnce() -> Result<T, git2::Error>,
) -> Result<T, (git2::Error, Option<Fault>)> {
    let call = Arc::new(Call { address: address.clone(), limits, stop: stop.clone(), fault: Mutex::default() });
    CALL.set(Some(Arc::clone(&call)));
    let result = work();
    CALL.set(None);
    let fault = call.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
    result.map_err(|error| (error, fault))
}

impl Call {
    /// Notes why the call fails, and has libgit2 end it.
    fn fail(&self, fault: Fault) -> io::Error {
        let text = fault.error.to_string();
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        // libgit2 takes no text with a zero byte in it.
        io::Error::other(text.replace('\0', ""))
    }

    /// The same, for where libgit2 wants an error of its own.
    fn fail_early(&self, fault: Fault) -> git2::Error {
        git2::Error::new(ErrorCode::GenericError, ErrorClass::Net, self.fail(fault).to_string())
    }

    /// The server cannot be reached, or does not behave.
    fn unreachable(&self, why: &str) -> Fault {
        let (address, why) = (self.address.display().to_owned(), self.address.scrub(why));
        Fault::of(RepositoryError::Unreachable { address, why })
    }

    /// The server does not accept who we are.
    fn unauthorized(&self, why: &str) -> Fault {
        let (address, why) = (self.address.display().to_owned(), self.address.scrub(why));
        Fault::of(RepositoryError::Unauthorized { address, why })
    }

    /// The server is not who it should be.
    fn untrusted(&self, why: &str) -> Fault {
        let (address, why) = (self.address.display().to_owned(), self.address.scrub(why));
        Fault::of(RepositoryError::Untrusted { address, why })
    }

    /// What is given to get in cannot be used.
    fn unusable(&self, why: &str) -> Fault {
        let (address, why) = (self.address.display().to_owned(), self.address.scrub(why));
        Fault::of(RepositoryError::Credentials { address, why })
    }

    /// The server knows no such repository.
    fn not_found(&self) -> Fault {
        Fault::of(super::error::not_found(&self.address, "the repository"))
    }

    fn timed_out(&self) -> Fault {
        self.unreachable(&format!("timed out: not a word for {} s", self.limits.silence.as_secs_f32()))
    }

    fn stopped(&self) -> Fault {
        self.unreachable("nobody waits for the answer any more")
    }
}

impl Fault {
    fn of(error: RepositoryError) -> Self {
        Self { error, is_refusal: false }
    }

    fn refusal(self) -> Self {
        Self { is_refusal: true, ..self }
    }
}
