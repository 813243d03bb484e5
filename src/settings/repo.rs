//! The address of a repository, with its credentials kept apart from the first moment.
//!
//! Why not a URL type: the address is printed in logs, errors, events and the status branch, and the only
//! way never to print a password there is not to have it in that value.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::git::{Secret, percent_decoded};

/// What stands in for a secret wherever it would be printed.
const REDACTED: &str = "***";

/// User and password of a git server, as its URL held them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user. Secret too: several hosts take a token as the user, without a password.
    pub user: Secret,
    /// The password; `None` where the URL has none.
    pub password: Option<Secret>,
}

/// Where a repository is.
#[derive(Clone, PartialEq, Eq)]
pub struct RepoAddress {
    /// Its URL without credentials, or its absolute path.
    address: String,
    credentials: Option<Credentials>,
    scheme: Scheme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Https,
    Http,
    Ssh,
    Git,
    Local,
}

/// By what kind of server a repository is reached, as far as credentials go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressKind {
    /// https and http.
    Http,
    /// ssh.
    Ssh,
    /// Where nobody asks for credentials.
    Other,
}

/// Why a text is no address; without the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressError {
    pub(crate) why: String,
    pub(crate) hint: Option<&'static str>,
}

impl RepoAddress {
    /// Understands an `https://`, `http://`, `ssh://` or `git://` URL, `user@host:path`, a `file://` URL or a path; a
    /// relative path starts at `base`.
    pub(crate) fn parse(text: &str, base: &Path) -> Result<Self, AddressError> {
        let error = |why: &str, hint| Err(AddressError { why: why.to_owned(), hint });
        if text.trim() != text || text.chars().any(char::is_control) {
            return error("it has spaces around it or control characters in it", None);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            // `git@host:path`, which git reads as ssh: a colon before the first slash.
            return match text.split_once(':').filter(|(before, _)| before.contains('@') && !before.contains('/')) {
                Some((before, path)) => Self::parse_scp(text, before, path),
                None => Ok(Self::local(base.join(text))),
            };
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            "git" => Scheme::Git,
            "file" => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if path.starts_with('/') {
                    // As git reads it.
                    let path = percent_decoded(path);
                    if path.chars().any(char::is_control) {
                        return error("it has control characters in it", None);
                    }
                    return Ok(Self::local(PathBuf::from(path)));
                }
                return error("a file URL needs an absolute path", Some("write file:///path/to/repository"));
            }
            "ssh" | "git+ssh" => Scheme::Ssh,
            _ => return error("its scheme is none of https, http, ssh, git, file", None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        if host.is_empty() || host.starts_with(':') {
            return error("it has no host", None);
        }
        if let Some((_, port)) = host.rsplit_once(':')
            && !host.ends_with(']')
            && port.parse::<u16>().is_err()
        {
            return error("its port is no number of 1 to 65535", None);
        }
        if path.trim_matches('/').is_empty() {
            return error("it has no path behind the host", None);
        }
        if rest.contains(['?', '#']) {
            return error("a query or fragment has no place in the address of a repository", None);
        }
        let credentials = match userinfo.filter(|userinfo| !userinfo.is_empty()) {
            Some(userinfo) if scheme == Scheme::Ssh => {
                if userinfo.contains(':') {
                    return error("ssh takes no password, only a private key", Some(USE_KEY));
                }
                let address = format!("ssh://{userinfo}@{host}{path}");
                return Ok(Self { address, credentials: None, scheme });
            }
            Some(_) if scheme == Scheme::Git => {
                return error("git:// knows no credentials", Some(USE_HTTPS));
            }
            Some(userinfo) => Some(parse_credentials(userinfo)?),
            None => None,
        };
        let address = format!("{}://{host}{path}", scheme.as_str());
        Ok(Self { address, credentials, scheme })
    }

    fn parse_scp(text: &str, before: &str, path: &str) -> Result<Self, AddressError> {
        let (user, host) = before.rsplit_once('@').unwrap_or(("", before));
        let error = |why: &str, hint| Err(AddressError { why: why.to_owned(), hint });
        if user.is_empty() || host.is_empty() || path.trim_matches('/').is_empty() || path.starts_with('-') {
            return error("it looks like user@host:path, and a part of it is missing", None);
        }
        Ok(Self { address: text.to_owned(), credentials: None, scheme: Scheme::Ssh })
    }

    /// A repository at an absolute path of this machine.
    pub fn local(path: PathBuf) -> Self {
        let mut clean = PathBuf::new();
        for part in path.components() {
            match part {
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir if clean.parent().is_some() => {
                    clean.pop();
                }
                other => clean.push(other),
            }
        }
        Self { address: clean.to_string_lossy().into_owned(), credentials: None, scheme: Scheme::Local }
    }

    /// The URL without credentials, or the path: for people and for git alike.
    pub fn as_str(&self) -> &str {
        &self.address
    }

    /// What the URL held in front of the host.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Its path, if it is on this machine.
    pub fn local_path(&self) -> Option<&Path> {
        (self.scheme == Scheme::Local).then(|| Path::new(&self.address))
    }

    /// By what kind of server it is reached.
    pub(crate) fn kind(&self) -> AddressKind {
        match self.scheme {
            Scheme::Https | Scheme::Http => AddressKind::Http,
            Scheme::Ssh => AddressKind::Ssh,
            Scheme::Git | Scheme::Local => AddressKind::Other,
        }
    }

    /// Whether what is sent to it can be read by everybody on the way.
    pub(crate) fn is_plain_http(&self) -> bool {
        self.scheme == Scheme::Http
    }

    /// Whether its credentials travel unencrypted.
    pub fn exposes_credentials(&self) -> bool {
        self.scheme == Scheme::Http && self.credentials.is_some()
    }

    /// Whether both are the same repository, whoever asks.
    pub(crate) fn is_same_repository(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }

    /// Whether a secret that is meant for the other goes to the same server, on the same kind of way.
    pub(crate) fn is_on_server_of(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.server().eq_ignore_ascii_case(other.server())
    }

    /// Host and port, a usual one left out; empty on this machine.
    fn server(&self) -> &str {
        let (server, _) = self.server_and_path();
        let usual = match self.scheme {
            Scheme::Https => ":443",
            Scheme::Http => ":80",
            Scheme::Ssh => ":22",
            Scheme::Git => ":9418",
            Scheme::Local => "",
        };
        server.strip_suffix(usual).unwrap_or(server)
    }

    /// The address without scheme and user, where its server ends.
    fn server_and_path(&self) -> (&str, &str) {
        let (authority, path) = match self.address.split_once("://") {
            Some((_, rest)) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None if self.scheme == Scheme::Ssh => self.address.split_once(':').unwrap_or((&self.address, "")),
            None => ("", self.address.as_str()),
        };
        (authority.rsplit_once('@').map_or(authority, |(_, server)| server), path)
    }

    /// The address in one spelling, to compare it.
    fn canonical(&self) -> String {
        let (_, path) = self.server_and_path();
        let address = match self.scheme {
            Scheme::Ssh => format!("{}/{}", self.server(), path.trim_start_matches('/')),
            Scheme::Https | Scheme::Http | Scheme::Git | Scheme::Local => self.address.clone(),
        };
        address.trim_end_matches('/').trim_end_matches(".git").to_owned()
    }

    /// The address as it was written, with `***` for each secret.
    pub fn redacted(&self) -> String {
        let userinfo = match &self.credentials {
            None => return self.address.clone(),
            Some(Credentials { password: None, .. }) => REDACTED.to_owned(),
            Some(Credentials { user, password: Some(_) }) => format!("{}:{REDACTED}", encode(user.expose())),
        };
        match self.address.split_once("://") {
            Some((scheme, rest)) => format!("{scheme}://{userinfo}@{rest}"),
            None => self.address.clone(),
        }
    }
}

impl fmt::Display for RepoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl fmt::Debug for RepoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.redacted())
    }
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::Git => "git",
            Self::Local => "file",
        }
    }
}

const USE_KEY: &str = "leave the password out and say privateKeyFile in the credentials";
const USE_HTTPS: &str = "use the https address of the repository";

fn parse_credentials(userinfo: &str) -> Result<Credentials, AddressError> {
    let (user, password) = match userinfo.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (userinfo, None),
    };
    if password.unwrap_or(user) == REDACTED {
        return Err(AddressError {
            why: "its password is the `***` that --print-config shows instead".into(),
            hint: Some("put the real one back"),
        });
    }
    let part = |text: &str| {
        decode(text).map(Secret::new).ok_or_else(|| AddressError {
            why: "the percent-encoding of its user or password is wrong".into(),
            hint: Some("a `%` of a password is written `%25`, an `@` is written `%40`"),
        })
    };
    Ok(Credentials { user: part(user)?, password: password.map(part).transpose()? })
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~+".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend([byte >> 4, byte & 15].map(|n| char::from(b"0123456789ABCDEF"[usize::from(n)])));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RepoAddress {
        RepoAddress::parse(text, Path::new("/here")).unwrap_or_else(|error| panic!("{text}: {}", error.why))
    }

    #[test]
    fn credentials_leave_the_address_at_once() {
        let repo = parse("https://ann:p%40ss@git.example.com:8443/team/config.git");
        assert_eq!(repo.as_str(), "https://git.example.com:8443/team/config.git");
        let credentials = repo.credentials().unwrap();
        assert_eq!(credentials.user.expose(), "ann");
        assert_eq!(credentials.password.as_ref().unwrap().expose(), "p@ss");
        assert_eq!(repo.redacted(), "https://ann:***@git.example.com:8443/team/config.git");
        assert_eq!(format!("{repo:?} {:?}", repo.credentials()).matches("p@ss").count(), 0);
    }

    #[test]
    fn a_token_in_place_of_the_user_is_secret_too() {
        let repo = parse("https://ghp_abc@git.example.com/team/config");
        assert_eq!(repo.redacted(), "https://***@git.example.com/team/config");
        assert!(!format!("{repo:?}{:?}", repo.credentials()).contains("ghp"));
        assert_eq!(repo.credentials().unwrap().password, None);
    }

    #[test]
    fn paths_are_made_absolute_and_clean() {
        assert_eq!(parse("repo.git").as_str(), "/here/repo.git");
        assert_eq!(parse("./a/../repo.git").as_str(), "/here/repo.git");
        assert_eq!(parse("file:///srv/repo.git").as_str(), "/srv/repo.git");
        assert_eq!(parse("file:///srv/my%20repo.git").as_str(), "/srv/my repo.git");
        assert_eq!(parse("file://localhost/srv/repo.git").as_str(), "/srv/repo.git");
        assert_eq!(parse("file:///srv/100%.git").as_str(), "/srv/100%.git");
        assert_eq!(parse("/srv/my%20repo.git").as_str(), "/srv/my%20repo.git");
        assert_eq!(parse("../x").local_path(), Some(Path::new("/x")));
        assert_eq!(parse("https://h/x").local_path(), None);
    }

    #[test]
    fn other_addresses_are_refused_without_printing_them() {
        for text in [
            "ssh://git:secret@github.com/team/config.git",
            "git@github.com:",
            "git@github.com:-secret",
            "@h:x",
            "ftp://u:secret@h/x",
            "https://u:secret@/x",
            "https://u:secret@h",
            "https://u:secret@h:port/x",
            "https://u:secret@h/x?token=secret",
            "https://u:secret%@h/x",
            "https://u:***@h/x",
            "https://***@h/x",
            "git://u:secret@h/x",
            "file://x",
            "file:///x%0asecret",
            " https://h/x",
        ] {
            let error = RepoAddress::parse(text, Path::new("/")).expect_err(text);
            assert!(!error.why.contains("secret"), "{}", error.why);
        }
    }

    #[test]
    fn the_same_repository_is_known_by_its_address_whoever_asks() {
        assert!(parse("https://a:b@h/x.git").is_same_repository(&parse("https://h/x/")));
        assert!(!parse("https://h/x").is_same_repository(&parse("https://h/y")));
        assert!(parse("git@h:team/x.git").is_same_repository(&parse("ssh://git@h/team/x")));
        assert!(!parse("git@h:team/x.git").is_same_repository(&parse("git@h:team/y.git")));
    }

    #[test]
    fn ssh_has_two_spellings_and_its_user_is_no_secret() {
        for text in ["git@git.example:team/x.git", "ssh://git@git.example:2222/team/x.git"] {
            let repo = parse(text);
            assert_eq!((repo.as_str(), repo.redacted().as_str(), repo.kind()), (text, text, AddressKind::Ssh));
            assert_eq!(repo.credentials(), None);
        }
        assert_eq!(parse("./a@b:c").local_path(), Some(Path::new("/here/a@b:c")));
    }
}
