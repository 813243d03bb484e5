//! `known_hosts`: which keys a host may show.
//!
//! Our own reading of the file, because libssh2's knows no `@revoked` and gives up at the first line that it does not
//! understand, while people need to be told which line to add. A line that cannot be read trusts nobody and is passed
//! over, as OpenSSH does.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The lines of a file that say something about a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownHosts(Vec<Line>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    is_revoked: bool,
    hosts: Hosts,
    key: HostKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// Names with `*` and `?`; those with `!` in front exclude.
    Patterns(Vec<String>),
    /// Salt, and the HMAC-SHA1 of the name.
    Hashed(Vec<u8>, Vec<u8>),
}

/// A public key as ssh sends it: its type and its parts, each with its length in front.
#[derive(Clone, PartialEq, Eq)]
pub struct HostKey(Vec<u8>);

/// What the file says about a key that a host shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The host may show it.
    Trusted,
    /// The key is marked as `@revoked`.
    Revoked,
    /// The host has another key of this type in the file.
    Changed {
        /// The keys in the file.
        known: Vec<HostKey>,
    },
    /// The host is in the file with keys of other types only.
    OtherType {
        /// Their types.
        known: Vec<String>,
    },
    /// The host is not in the file.
    Unknown,
}

impl KnownHosts {
    /// Reads the text of a file. Never fails: a line that is not understood trusts nobody.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse_line).collect())
    }

    /// What the file says about `key`, shown by `host` on `port`.
    pub fn judge(&self, host: &str, port: u16, key: &HostKey) -> Verdict {
        let about = |name: &str| -> Vec<&Line> { self.0.iter().filter(|line| line.hosts.include(name)).collect() };
        let here = about(&name_of(host, port));
        let bare = about(&host.to_lowercase());
        // What is revoked is revoked under either name.
        if here.iter().chain(&bare).any(|line| line.is_revoked && line.key == *key) {
            return Verdict::Revoked;
        }
        // As OpenSSH does: a line for the bare name counts for another port too, if the key is the same and no line is about
        // that port. Who has written one has said whom to trust there.
        let is_known = here.iter().any(|line| !line.is_revoked);
        let trusted = if is_known { &here } else { &bare };
        if trusted.iter().any(|line| !line.is_revoked && line.key == *key) {
            return Verdict::Trusted;
        }
        let known: Vec<&HostKey> = here.iter().filter(|line| !line.is_revoked).map(|line| &line.key).collect();
        let same_type: Vec<HostKey> =
            known.iter().filter(|known| known.kind() == key.kind()).map(|&k| k.clone()).collect();
        if !same_type.is_empty() {
            return Verdict::Changed { known: same_type };
        }
        if known.is_empty() {
            return Verdict::Unknown;
        }
        Verdict::OtherType { known: known.iter().map(|known| known.kind().to_owned()).collect() }
    }

    /// The types of key that the file has for a host, so that the host is asked to show one of these.
    pub fn types(&self, host: &str, port: u16) -> Vec<&str> {
        let of = |name: &str| -> Vec<&str> {
            let lines = self.0.iter().filter(|line| !line.is_revoked && line.hosts.include(name));
            lines.map(|line| line.key.kind()).collect()
        };
        let here = of(&name_of(host, port));
        if here.is_empty() { of(&host.to_lowercase()) } else { here }
    }
}

impl HostKey {
    /// A key as ssh sends it. `None`: this is none.
    pub fn from_blob(blob: &[u8]) -> Option<Self> {
        let key = Self(blob.to_vec());
        (!key.kind().is_empty()).then_some(key)
    }

    /// Its type, such as `ssh-ed25519`.
    pub fn kind(&self) -> &str {
        let kind = self.0.split_first_chunk().and_then(|(length, rest)| {
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            std::str::from_utf8(rest.get(..length)?).ok()
        });
        kind.unwrap_or_default()
    }

    /// Its fingerprint as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(&self.0)))
    }

    /// The line of `known_hosts` that trusts it.
    pub fn line(&self, host: &str, port: u16) -> String {
        format!("{} {} {}", name_of(host, port), self.kind(), STANDARD.encode(&self.0))
    }
}

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind(), self.fingerprint())
    }
}

impl Hosts {
    fn include(&self, name: &str) -> bool {
        match self {
            Self::Hashed(salt, hash) => Hmac::<Sha1>::new_from_slice(salt)
                .is_ok_and(|mac| mac.chain_update(name.as_bytes()).verify_slice(hash).is_ok()),
            Self::Patterns(patterns) => {
                let is_excluded = patterns.iter().filter_map(|p| p.strip_prefix('!')).any(|p| is_match(p, name));
                !is_excluded && patterns.iter().any(|p| !p.starts_with('!') && is_match(p, name))
            }
        }
    }
}

/// A host as the file names it.
fn name_of(host: &str, port: u16) -> String {
    let host = host.to_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

fn parse_line(line: &str) -> Option<Line> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let mut hosts = words.next()?;
    let is_revoked = hosts == "@revoked";
    if is_revoked {
        hosts = words.next()?;
    } else if hosts.starts_with('@') {
        // A certificate authority for host keys: libssh2 knows no certificates.
        return None;
    }
    let hosts = match hosts.strip_prefix("|1|") {
        Some(hashed) => {
            let (salt, hash) = hashed.split_once('|')?;
            Hosts::Hashed(STANDARD.decode(salt).ok()?, STANDARD.decode(hash).ok()?)
        }
        None => Hosts::Patterns(hosts.split(',').map(str::to_lowercase).collect()),
    };
    let kind = words.next()?;
    let key = HostKey::from_blob(&STANDARD.decode(words.next()?).ok()?)?;
    (key.kind() == kind).then_some(Line { is_revoked, hosts, key })
}

/// Whether a name is what a pattern with `*` and `?` means.
fn is_match(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last star, if what follows it does not fit here.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                p = star + 1;
                n = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str, body: &str) -> HostKey {
        let mut blob = u32::try_from(kind.len()).unwrap().to_be_bytes().to_vec();
        blob.extend(kind.bytes().chain(body.bytes()));
        HostKey::from_blob(&blob).unwrap()
    }

    fn ed(body: &str) -> HostKey {
        key("ssh-ed25519", body)
    }

    fn judge(text: &str, host: &str, port: u16, key: &HostKey) -> Verdict {
        KnownHosts::parse(text).judge(host, port, key)
    }

    fn written(hosts: &str, key: &HostKey) -> String {
        format!("{hosts} {} {}\n", key.kind(), STANDARD.encode(&key.0))
    }

    #[test]
    fn the_line_to_add_trusts_the_key_and_no_other() {
        for port in [22, 2222] {
            let line = ed("one").line("Git.Example", port);
            assert_eq!(judge(&line, "git.example", port, &ed("one")), Verdict::Trusted, "{line}");
            assert_eq!(judge(&line, "other.example", port, &ed("one")), Verdict::Unknown);
            assert_eq!(judge(&line, "git.example", port, &ed("two")), Verdict::Changed { known: vec![ed("one")] });
        }
        assert!(ed("one").line("git.example", 2222).starts_with("[git.example]:2222 ssh-ed25519 AAAA"));
    }

    #[test]
    fn a_line_without_a_port_is_not_about_other_ports_unless_the_key_is_the_same() {
        let line = written("git.example", &ed("one"));
        assert_eq!(judge(&line, "git.example", 2222, &ed("one")), Verdict::Trusted);
        assert_eq!(judge(&line, "git.example", 2222, &ed("two")), Verdict::Unknown);
    }

    #[test]
    fn where_a_port_has_its_own_key_that_of_the_bare_name_is_not_trusted() {
        let text = written("git.example", &ed("one")) + &written("[git.example]:2222", &ed("two"));
        assert_eq!(judge(&text, "git.example", 2222, &ed("one")), Verdict::Changed { known: vec![ed("two")] });
        assert_eq!(judge(&text, "git.example", 2222, &ed("two")), Verdict::Trusted);
        assert_eq!(judge(&text, "git.example", 22, &ed("one")), Verdict::Trusted);
        let rsa = written("git.example", &ed("one")) + &written("[git.example]:2222", &key("ssh-rsa", "r"));
        let known = vec!["ssh-rsa".to_owned()];
        assert_eq!(judge(&rsa, "git.example", 2222, &ed("one")), Verdict::OtherType { known });
        assert_eq!(KnownHosts::parse(&rsa).types("git.example", 2222), ["ssh-rsa"]);
        // A revoked key is none of its own, and is revoked under either name.
        let revoked = written("git.example", &ed("one")) + "@revoked " + &written("[git.example]:2222", &ed("two"));
        assert_eq!(judge(&revoked, "git.example", 2222, &ed("one")), Verdict::Trusted);
        assert_eq!(judge(&revoked, "git.example", 2222, &ed("two")), Verdict::Revoked);
        let bare =
            "@revoked ".to_owned() + &written("git.example", &ed("one")) + &written("[git.example]:2222", &ed("one"));
        assert_eq!(judge(&bare, "git.example", 2222, &ed("one")), Verdict::Revoked);
    }

    #[test]
    fn several_keys_and_types_of_one_host_are_all_good() {
        let rsa = key("ssh-rsa", "r");
        let text = written("git.example,10.0.0.1", &ed("one")) + &written("git.example", &ed("two"));
        assert_eq!(judge(&text, "git.example", 22, &ed("two")), Verdict::Trusted);
        assert_eq!(judge(&text, "10.0.0.1", 22, &ed("one")), Verdict::Trusted);
        let known = vec!["ssh-ed25519".to_owned(); 2];
        assert_eq!(judge(&text, "git.example", 22, &rsa), Verdict::OtherType { known });
        let all = text + &written("git.example", &rsa);
        assert_eq!(KnownHosts::parse(&all).types("git.example", 22), ["ssh-ed25519", "ssh-ed25519", "ssh-rsa"]);
        assert!(KnownHosts::parse(&all).types("elsewhere", 22).is_empty());
    }

    #[test]
    fn a_revoked_key_is_refused_wherever_else_it_stands() {
        let text = written("git.example", &ed("one")) + "@revoked " + &written("*", &ed("one"));
        assert_eq!(judge(&text, "git.example", 22, &ed("one")), Verdict::Revoked);
        assert!(KnownHosts::parse(&("@revoked ".to_owned() + &written("*", &ed("one")))).types("h", 22).is_empty());
    }

    #[test]
    fn a_hashed_name_is_found() {
        // `ssh-keygen -H` of a file with the host git.example.
        let hashed = "|1|c2FsdHNhbHRzYWx0c2FsdHNhbHQ=|";
        let mut mac = Hmac::<Sha1>::new_from_slice(b"saltsaltsaltsaltsalt").unwrap();
        mac.update(b"[git.example]:2222");
        let text = written(&format!("{hashed}{}", STANDARD.encode(mac.finalize().into_bytes())), &ed("one"));
        assert_eq!(judge(&text, "git.example", 2222, &ed("one")), Verdict::Trusted);
        assert_eq!(judge(&text, "git.example", 22, &ed("one")), Verdict::Unknown);
    }

    #[test]
    fn patterns_are_those_of_openssh() {
        for (pattern, name, fits) in [
            ("*.example", "git.example", true),
            ("*.example", "example", false),
            ("g?t.*", "git.example", true),
            ("*", "", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("", "a", false),
        ] {
            assert_eq!(is_match(pattern, name), fits, "{pattern} {name}");
        }
        let text = written("*.example,!git.example", &ed("one"));
        assert_eq!(judge(&text, "git.example", 22, &ed("one")), Verdict::Unknown);
        assert_eq!(judge(&text, "www.example", 22, &ed("one")), Verdict::Trusted);
    }

    #[test]
    fn nonsense_trusts_nobody_and_hides_no_other_line() {
        let wrong_type = written("git.example", &ed("one")).replace("ssh-ed25519 ", "ssh-rsa ");
        let nonsense = [
            "",
            "#",
            "# git.example x y",
            "git.example",
            "git.example ssh-ed25519",
            "@",
            "@revoked",
            "@cert-authority * x y",
            "|1|",
            "|1|x|y ssh-ed25519 AAAA",
            "git.example ssh-ed25519 !!!",
            "git.example ssh-ed25519 AAAA",
            &wrong_type,
        ];
        for line in nonsense {
            assert_eq!(KnownHosts::parse(line), KnownHosts::default(), "{line}");
        }
        let text = nonsense.join("\n") + "\n" + &written("git.example", &ed("two"));
        assert_eq!(judge(&text, "git.example", 22, &ed("two")), Verdict::Trusted);
        assert_eq!(HostKey::from_blob(&[0xff; 8]), None);
    }
}
