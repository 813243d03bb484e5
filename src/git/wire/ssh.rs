//! Git over ssh, by libssh2.
//!
//! Nothing is sent before the host key is known to be good: an unknown or changed one is refused, with the line that
//! would trust it. The server is asked for a key of a type that the file of known hosts has, as OpenSSH asks, so a file
//! with one of the server's keys is enough. Every wait has the limit of [`NetworkLimits::silence`].
//!
//! [`NetworkLimits::silence`]: super::super::transport::NetworkLimits::silence

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use ssh2::{Channel, ErrorCode, MethodType, Session};

use super::super::address::{Place, SshPlace};
use super::known_hosts::{HostKey, KnownHosts, Verdict};
use super::{Call, Fault};
use crate::chain::Chain;

/// Git over ssh, for one call.
pub(super) struct Ssh(Arc<Call>);

impl Ssh {
    pub(super) fn new(call: Arc<Call>) -> Self {
        Self(call)
    }
}

impl SmartSubtransport for Ssh {
    fn action(&self, _url: &str, service: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let call = &self.0;
        let pipe = Pipe::open(call, service).map_err(|fault| call.fail_early(fault))?;
        Ok(Box::new(pipe))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// The program on the server.
struct Pipe {
    call: Arc<Call>,
    channel: Channel,
    /// Whether the program pushes.
    writes: bool,
}

impl Pipe {
    fn open(call: &Arc<Call>, service: Service) -> Result<Self, Fault> {
        let Place::Ssh(place) = call.address.place() else {
            return Err(call.unreachable("this is no ssh address"));
        };
        let (program, writes) = match service {
            Service::UploadPackLs | Service::UploadPack => ("git-upload-pack", false),
            Service::ReceivePackLs | Service::ReceivePack => ("git-receive-pack", true),
        };
        let session = connect(call, place)?;
        let broken = |error: ssh2::Error| session_fault(call, &error);
        let mut channel = session.channel_session().map_err(broken)?;
        channel.exec(&format!("{program} {}", quoted(&place.path))).map_err(broken)?;
        Ok(Self { call: Arc::clone(call), channel, writes })
    }

    fn broken(&self, error: &io::Error) -> io::Error {
        let is_late = error.kind() == io::ErrorKind::TimedOut;
        self.call.fail(if is_late { self.call.timed_out() } else { self.call.unreachable(&Chain(error).to_string()) })
    }
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.call.stop.is_set() {
            return Err(self.call.fail(self.call.stopped()));
        }
        let read = self.channel.read(into).map_err(|error| self.broken(&error))?;
        if read > 0 || into.is_empty() {
            return Ok(read);
        }
        // The program has ended. Where it did not do its work, it said why beside it.
        let mut words = Vec::new();
        let beside = self.channel.stderr().take(MAX_WORDS).read_to_end(&mut words);
        let words = String::from_utf8_lossy(&words).split_whitespace().collect::<Vec<_>>().join(" ");
        if beside.is_ok() && !words.is_empty() {
            return Err(self.call.fail(program_fault(&self.call, &words, self.writes)));
        }
        Ok(0)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.call.stop.is_set() {
            return Err(self.call.fail(self.call.stopped()));
        }
        self.channel.write(bytes).map_err(|error| self.broken(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.channel.flush().map_err(|error| self.broken(&error))
    }
}

/// What a program may say about its failure before we stop listening.
const MAX_WORDS: u64 = 4096;

/// A session that is trusted and that trusts us.
fn connect(call: &Call, place: &SshPlace) -> Result<Session, Fault> {
    let access = call.address.access();
    let (known, file) = access.known_hosts().map_err(|why| call.unusable(&why))?;
    let known = KnownHosts::parse(&known);
    let key = access.key().map_err(|why| call.unusable(&why))?;
    call.address.keep_secret(std::slice::from_ref(&key.private));
    call.address.keep_secret(key.passphrase.as_slice());

    let stream = connect_tcp(call, place)?;
    let broken = |error: ssh2::Error| session_fault(call, &error);
    let mut session = Session::new().map_err(broken)?;
    session.set_timeout(u32::try_from(call.limits.silence.as_millis()).unwrap_or(u32::MAX).max(1));
    session.set_tcp_stream(stream);
    session.method_pref(MethodType::HostKey, &preferred(&known.types(&place.host, place.port))).map_err(broken)?;
    session.handshake().map_err(broken)?;

    let shown = session.host_key().and_then(|(blob, _)| HostKey::from_blob(blob));
    let shown = shown.ok_or_else(|| call.untrusted("it shows no host key"))?;
    let verdict = known.judge(&place.host, place.port, &shown);
    if let Some(why) = objection(&verdict, place, &shown, &file.display().to_string()) {
        return Err(call.untrusted(&why));
    }

    let signed_in = session.userauth_pubkey_memory(&place.user, None, &key.private, key.passphrase.as_deref());
    signed_in.map_err(|error| match error.code() {
        ErrorCode::Session(AUTHENTICATION_FAILED | PUBLICKEY_UNVERIFIED) => {
            call.unauthorized(&format!("it does not take the key of {} for the user {}", key.from, place.user))
        }
        ErrorCode::Session(FILE | METHOD_NONE | KEYFILE_AUTH_FAILED) => call.unusable(&format!(
            "the key of {} cannot be read: {}; is it a private key in the format of OpenSSH or PEM, and is its \
             passphrase given?",
            key.from,
            error.message()
        )),
        _ => session_fault(call, &error),
    })?;
    Ok(session)
}

fn connect_tcp(call: &Call, place: &SshPlace) -> Result<TcpStream, Fault> {
    let resolved = (place.host.as_str(), place.port).to_socket_addrs();
    let addresses = resolved.map_err(|error| call.unreachable(&format!("its name cannot be resolved: {error}")))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, call.limits.connect) {
            Ok(stream) => {
                // Packets of a few bytes go back and forth; without it they wait for each other.
                let _set = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(call.unreachable(&last.map_or_else(|| "its name has no address".to_owned(), |error| error.to_string())))
}

/// What of libssh2's error numbers is told apart (`libssh2.h`).
const METHOD_NONE: i32 = -17;
const AUTHENTICATION_FAILED: i32 = -18;
const PUBLICKEY_UNVERIFIED: i32 = -19;
const TIMEOUT: i32 = -9;
const FILE: i32 = -16;
const KEYFILE_AUTH_FAILED: i32 = -48;

fn session_fault(call: &Call, error: &ssh2::Error) -> Fault {
    match error.code() {
        ErrorCode::Session(TIMEOUT) => call.timed_out(),
        _ => call.unreachable(&format!("ssh: {}", error.message())),
    }
}

/// What the words of a program that failed mean.
fn program_fault(call: &Call, words: &str, writes: bool) -> Fault {
    let lower = words.to_ascii_lowercase();
    let is = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let fault = if is(&["not found", "does not appear to be a git repository", "does not exist", "no such project"]) {
        call.not_found()
    } else if is(&["permission", "denied", "not allowed", "read only", "read-only", "unauthorized"]) {
        call.unauthorized(words)
    } else {
        call.unreachable(words)
    };
    if writes { fault.refusal() } else { fault }
}

/// Why a host key is not good enough; `None`: it is.
fn objection(verdict: &Verdict, place: &SshPlace, shown: &HostKey, file: &str) -> Option<String> {
    let (line, print) = (shown.line(&place.host, place.port), shown.fingerprint());
    let kind = shown.kind();
    Some(match verdict {
        Verdict::Trusted => return None,
        Verdict::Unknown => format!(
            "its host key is not known; if {print} is the fingerprint of its {kind} key, add this line to {file}: {line}"
        ),
        Verdict::OtherType { known } => format!(
            "it has no host key of the types known for it ({}), but one of {kind} with the fingerprint {print}; if that \
             is right, add this line to {file}: {line}",
            known.join(", ")
        ),
        Verdict::Changed { known } => {
            let before: Vec<String> = known.iter().map(HostKey::fingerprint).collect();
            format!(
                "its host key has changed: {file} has {}, and it shows {print}. Somebody may be in between. If its \
                 owner has changed the key, put this line in the place of the old one: {line}",
                before.join(" and ")
            )
        }
        Verdict::Revoked => format!("its host key {print} is marked as revoked in {file}"),
    })
}

/// The kinds of signature to ask for, those of known keys first. RSA with SHA-1 is not among them.
fn preferred(known: &[&str]) -> String {
    const ALL: [(&str, &str); 6] = [
        ("ssh-ed25519", "ssh-ed25519"),
        ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"),
        ("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"),
        ("ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521"),
        ("ssh-rsa", "rsa-sha2-512"),
        ("ssh-rsa", "rsa-sha2-256"),
    ];
    let (first, then): (Vec<_>, Vec<_>) = ALL.into_iter().partition(|(key, _)| known.contains(key));
    first.into_iter().chain(then).map(|(_, signature)| signature).collect::<Vec<_>>().join(",")
}

/// A path as one word of a shell, as git itself quotes it.
fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''").replace('!', r"'\!'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_whatever_is_in_it() {
        assert_eq!(quoted("/team/shop.git"), "'/team/shop.git'");
        assert_eq!(quoted("a'; rm -rf /; '"), r"'a'\''; rm -rf /; '\'''");
        assert_eq!(quoted("wow!"), r"'wow'\!''");
    }

    #[test]
    fn known_types_are_asked_for_first() {
        assert!(preferred(&["ssh-rsa"]).starts_with("rsa-sha2-512,rsa-sha2-256,ssh-ed25519,ecdsa"));
        assert!(preferred(&["ecdsa-sha2-nistp384"]).starts_with("ecdsa-sha2-nistp384,ssh-ed25519"));
        assert!(preferred(&[]).starts_with("ssh-ed25519"));
    }
}
