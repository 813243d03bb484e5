//! Where a repository is, and how to get into it, kept apart.
//!
//! Credentials enter here: they are taken out of the address before libgit2 or a person sees it. Whatever text
//! comes back from outside goes through [`Address::scrub`] before it becomes part of an error.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::RepositoryError;
use super::access::{Access, Secret, SecretPlace};

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A folder on this machine: bare, or one that holds `.git`.
    Local(PathBuf),
    /// A `git://` URL, which libgit2 reaches by itself.
    Git(String),
    /// An `http://` or `https://` URL without user and password: what is shown of the address.
    Http,
    /// By ssh.
    Ssh(SshPlace),
}

/// A repository behind an ssh server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SshPlace {
    pub(super) user: String,
    pub(super) host: String,
    pub(super) port: u16,
    /// As the git program on the server takes it.
    pub(super) path: String,
}

/// The address of a repository, with what opens it kept apart.
#[derive(Clone)]
pub(super) struct Address(Arc<Inner>);

struct Inner {
    display: String,
    place: Place,
    access: Access,
    /// Spellings of credentials that were used and must not appear in any text.
    secrets: Mutex<VecDeque<String>>,
}

/// So many secrets are taken out of texts: the last ten rotations of a token, with its spellings.
const KEPT_SECRETS: usize = 32;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.0.display).finish()
    }
}

impl Address {
    /// Reads a URL (`https`, `http`, `ssh`, `git`, `file`), `user@host:path` or a path. What `access` says wins over
    /// user and password in the URL.
    pub(super) fn parse(text: &str, access: Access) -> Result<Self, RepositoryError> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => {
                return match scp(text) {
                    Some(place) => Ok(Self::new(text.to_owned(), Place::Ssh(place), access)),
                    None => Self::local(Path::new(text), access),
                };
            }
        };
        if scheme == "file" {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            return Self::local(Path::new(&percent_decoded(path)), access);
        }
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let url = format!("{scheme}://{host}{path}");
        match scheme.as_str() {
            "ssh" => {
                let user = userinfo.unwrap_or("git").split(':').next().unwrap_or_default();
                let (host, port) = match host.rsplit_once(':').filter(|_| !host.ends_with(']')) {
                    Some((host, port)) => (host, port.parse().unwrap_or(22)),
                    None => (host, 22),
                };
                let path = percent_decoded(path);
                let place = SshPlace {
                    user: percent_decoded(user),
                    host: host.trim_matches(['[', ']']).to_owned(),
                    port,
                    // `ssh://host/~user/path` is what it says.
                    path: path.strip_prefix('/').filter(|path| path.starts_with('~')).unwrap_or(&path).to_owned(),
                };
                let display = format!("ssh://{}@{}", place.user, url.trim_start_matches("ssh://"));
                Ok(Self::new(display, Place::Ssh(place), access))
            }
            "git" => Ok(Self::new(url.clone(), Place::Git(url), access)),
            "http" | "https" => {
                let access = match userinfo.filter(|_| access.password.is_none() && access.token.is_none()) {
                    Some(userinfo) => in_url(userinfo, access),
                    None => access,
                };
                let address = Self::new(url, Place::Http, access);
                address.keep_secret(userinfo.map(str::to_owned).as_slice());
                Ok(address)
            }
            _ => Err(RepositoryError::Unreachable {
                address: url,
                why: format!(
                    "{scheme} addresses are not supported; use https, http, ssh, git or a path on this machine"
                ),
            }),
        }
    }

    fn new(display: String, place: Place, access: Access) -> Self {
        Self(Arc::new(Inner { display, place, access, secrets: Mutex::default() }))
    }

    fn local(path: &Path, access: Access) -> Result<Self, RepositoryError> {
        match std::path::absolute(path) {
            Ok(path) => Ok(Self::new(path.display().to_string(), Place::Local(path), access)),
            Err(error) => {
                Err(RepositoryError::Unreachable { address: path.display().to_string(), why: error.to_string() })
            }
        }
    }

    /// For people: no credentials.
    pub(super) fn display(&self) -> &str {
        &self.0.display
    }

    /// Where it is.
    pub(super) fn place(&self) -> &Place {
        &self.0.place
    }

    /// How to get in.
    pub(super) fn access(&self) -> &Access {
        &self.0.access
    }

    /// From now on these appear in no text.
    pub(super) fn keep_secret(&self, secrets: &[String]) {
        let mut kept = self.0.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            if !kept.contains(secret) {
                kept.push_back(secret.clone());
            }
        }
        let too_many = kept.len().saturating_sub(KEPT_SECRETS);
        kept.drain(..too_many);
    }

    /// `text` with every spelling of the credentials replaced.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut secrets: Vec<String> =
            self.0.secrets.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        // One may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// User and password of a URL; a token in the place of the user has no password.
fn in_url(userinfo: &str, access: Access) -> Access {
    let (user, password) = userinfo.split_once(':').map_or((userinfo, None), |(user, password)| (user, Some(password)));
    let value = password.map(|password| Secret::new(percent_decoded(password)));
    Access {
        username: access.username.or_else(|| Some(Secret::new(percent_decoded(user)))),
        password: value.map(SecretPlace::Address),
        ..access
    }
}

/// `git@host:path`, the short form of an ssh address; a path with a colon is written `./a:b`, as for git.
fn scp(text: &str) -> Option<SshPlace> {
    let (before, path) = text.split_once(':')?;
    if before.contains('/') || path.is_empty() || Path::new(text).exists() {
        return None;
    }
    let (user, host) = before.rsplit_once('@').unwrap_or(("git", before));
    Some(SshPlace { user: user.to_owned(), host: host.to_owned(), port: 22, path: path.to_owned() })
}

/// The text that a part of a URL stands for. A `%` that begins no code is itself, as git reads it.
pub(crate) fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let pair = bytes.get(i + 1..i + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if bytes[i] == b'%' => {
                decoded.push(byte);
                i += 3;
            }
            _ => {
                decoded.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        Address::parse(text, Access::default()).unwrap()
    }

    #[test]
    fn credentials_leave_the_address_and_every_text() {
        let address = parse("https://bot:p%40ss@git.example/shop.git");
        assert_eq!(address.display(), "https://git.example/shop.git");
        let shown = address.access().authorization().unwrap().unwrap();
        assert_eq!(shown.header, "Basic Ym90OnBAc3M=");
        address.keep_secret(&shown.secrets);
        assert_eq!(
            address.scrub("cannot open https://bot:p%40ss@git.example: p@ss is wrong, Ym90OnBAc3M= too"),
            "cannot open https://***@git.example: *** is wrong, *** too"
        );
        assert!(!format!("{address:?} {:?}", address.access()).contains("bot"));
    }

    #[test]
    fn a_token_without_a_password_is_a_secret_too() {
        let address = parse("https://ghp_secret@git.example/shop.git");
        assert_eq!(address.scrub("ghp_secret"), "***");
        assert_eq!(address.access().authorization().unwrap().unwrap().header, "Basic Z2hwX3NlY3JldDo=");
    }

    #[test]
    fn given_credentials_win_over_those_in_the_address() {
        let given = Access::basic("serin", "from-the-settings");
        let address = Address::parse("http://a:b@h/x", given.clone()).unwrap();
        assert_eq!(address.access(), &given);
    }

    #[test]
    fn old_secrets_are_forgotten_some_day() {
        let address = parse("https://h/x");
        for n in 0..100 {
            address.keep_secret(&[format!("token-{n}-")]);
        }
        assert_eq!(address.scrub("token-99- token-1-"), "*** token-1-");
    }

    #[test]
    fn paths_and_file_urls_are_the_same_place() {
        let url = parse("file:///srv/my%20repo.git");
        assert_eq!(url.place(), &Place::Local(PathBuf::from("/srv/my repo.git")));
        assert_eq!(parse("/srv/my repo.git").place(), url.place());
    }

    #[test]
    fn ssh_addresses_have_two_forms() {
        let place = |user: &str, host: &str, port, path: &str| {
            Place::Ssh(SshPlace { user: user.to_owned(), host: host.to_owned(), port, path: path.to_owned() })
        };
        for (text, at) in [
            ("ssh://ann@git.example:2222/team/shop.git", place("ann", "git.example", 2222, "/team/shop.git")),
            ("ssh://git.example/~ann/shop%20one.git", place("git", "git.example", 22, "~ann/shop one.git")),
            ("ssh://git@[::1]:2222/shop.git", place("git", "::1", 2222, "/shop.git")),
            ("git@git.example:team/shop.git", place("git", "git.example", 22, "team/shop.git")),
            ("git.example:team/shop.git", place("git", "git.example", 22, "team/shop.git")),
        ] {
            assert_eq!(parse(text).place(), &at, "{text}");
        }
        assert_eq!(parse("ssh://git:pw@git.example/shop.git").display(), "ssh://git@git.example/shop.git");
        assert!(matches!(parse("./a:b").place(), Place::Local(_)));
    }

    #[test]
    fn other_schemes_are_refused_without_their_user() {
        let error = Address::parse("ftp://u:secret@h/x", Access::default()).unwrap_err().to_string();
        assert!(error.contains("ftp addresses are not supported") && !error.contains("secret"), "{error}");
    }
}
