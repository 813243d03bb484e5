//! Where a repository is, and the credentials for it, kept apart.
//!
//! Credentials enter here: they are taken out of the address before libgit2 or a person sees it. Whatever text
//! comes back from outside goes through [`Address::scrub`] before it becomes part of an error.

use std::fmt;
use std::path::{Path, PathBuf};

use super::RepositoryError;

/// A user name and a password or token for HTTP basic authentication.
///
/// Where a token is enough, any user name does. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    username: String,
    password: String,
}

impl Credentials {
    /// Basic authentication with these two.
    pub fn basic(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self { username: username.into(), password: password.into() }
    }

    pub(super) fn username(&self) -> &str {
        &self.username
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(redacted)")
    }
}

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A folder on this machine: bare, or one that holds `.git`.
    Local(PathBuf),
    /// A URL without user name and password.
    Remote(String),
}

/// The address of a repository, with the credentials kept apart.
#[derive(Clone)]
pub(super) struct Address {
    display: String,
    place: Place,
    credentials: Option<Credentials>,
    /// Spellings of the credentials that must not appear in any text, longest first.
    secrets: Vec<String>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.display).finish()
    }
}

impl Address {
    /// Reads a URL (`https`, `http`, `git`, `file`) or a path. `credentials` win over those in the URL.
    pub(super) fn parse(text: &str, credentials: Option<Credentials>) -> Result<Self, RepositoryError> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None if looks_like_scp(text) => {
                return Err(unsupported(text.split_once('@').map_or(text, |(_, host)| host), "ssh"));
            }
            None => return Self::local(Path::new(text)),
        };
        if scheme == "file" {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            return Self::local(Path::new(&percent_decoded(path)));
        }
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let url = format!("{scheme}://{host}{path}");
        if !matches!(scheme.as_str(), "http" | "https" | "git") {
            return Err(unsupported(&url, &scheme));
        }
        let mut secrets = Vec::new();
        let in_url = userinfo.map(|userinfo| {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            secrets.push(userinfo.to_owned());
            secrets.push(if password.is_empty() { user.to_owned() } else { password.to_owned() });
            Credentials::basic(percent_decoded(user), percent_decoded(password))
        });
        let credentials = credentials.or(in_url);
        if let Some(Credentials { username, password }) = &credentials {
            secrets.push(if password.is_empty() { username.clone() } else { password.clone() });
        }
        secrets.retain(|secret| !secret.is_empty());
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Ok(Self { display: url.clone(), place: Place::Remote(url), credentials, secrets })
    }

    fn local(path: &Path) -> Result<Self, RepositoryError> {
        let display = path.display().to_string();
        match std::path::absolute(path) {
            Ok(path) => Ok(Self {
                display: path.display().to_string(),
                place: Place::Local(path),
                credentials: None,
                secrets: Vec::new(),
            }),
            Err(error) => Err(RepositoryError::Unreachable { address: display, why: error.to_string() }),
        }
    }

    /// For people: no credentials.
    pub(super) fn display(&self) -> &str {
        &self.display
    }

    /// Where it is.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// `text` with every spelling of the credentials replaced.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }

    /// What to show a server that asks.
    pub(super) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }
}

fn unsupported(address: &str, scheme: &str) -> RepositoryError {
    RepositoryError::Unreachable {
        address: address.to_owned(),
        why: format!("{scheme} addresses are not supported; use https, http, git or a path on this machine"),
    }
}

/// `git@host:path`, the short form of an ssh address; a path with a colon is written `./a:b`, as for git.
fn looks_like_scp(text: &str) -> bool {
    let before_slash = text.split('/').next().unwrap_or_default();
    before_slash.contains(':') && !Path::new(text).exists()
}

fn percent_decoded(text: &str) -> String {
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

    #[test]
    fn credentials_leave_the_address_and_every_text() {
        let address = Address::parse("https://bot:p%40ss@git.example/shop.git", None).unwrap();
        assert_eq!(address.display(), "https://git.example/shop.git");
        assert_eq!(address.place(), &Place::Remote("https://git.example/shop.git".to_owned()));
        assert_eq!(address.credentials, Some(Credentials::basic("bot", "p@ss")));
        assert_eq!(
            address.scrub("cannot open https://bot:p%40ss@git.example: p@ss is wrong"),
            "cannot open https://***@git.example: *** is wrong"
        );
        assert!(!format!("{:?}", address.credentials).contains("bot"));
    }

    #[test]
    fn a_token_without_a_password_is_a_secret_too() {
        let address = Address::parse("https://ghp_secret@git.example/shop.git", None).unwrap();
        assert_eq!(address.scrub("ghp_secret"), "***");
    }

    #[test]
    fn given_credentials_win_over_those_in_the_address() {
        let given = Credentials::basic("serin", "from-the-settings");
        let address = Address::parse("http://a:b@h/x", Some(given.clone())).unwrap();
        assert_eq!(address.credentials, Some(given));
    }

    #[test]
    fn paths_and_file_urls_are_the_same_place() {
        let url = Address::parse("file:///srv/my%20repo.git", None).unwrap();
        assert_eq!(url.place(), &Place::Local(PathBuf::from("/srv/my repo.git")));
        let path = Address::parse("/srv/my repo.git", None).unwrap();
        assert_eq!(path.place(), url.place());
    }

    #[test]
    fn ssh_is_refused_in_words_and_without_its_user() {
        for text in ["ssh://git:pw@git.example/shop.git", "git@git.example:shop.git"] {
            let error = Address::parse(text, None).unwrap_err().to_string();
            assert!(error.contains("ssh addresses are not supported"), "{error}");
            assert!(!error.contains("pw"), "{error}");
        }
    }
}
