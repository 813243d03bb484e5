//! What opens the door of a repository: where its credentials are, and reading them.
//!
//! Files are read again for every network call, so a token that was rotated, or a mounted Secret whose links were
//! swapped, works without a restart. Nothing of what is read is kept, except to take it out of every text that
//! leaves [`super`]. `Debug` shows where a secret is and never the secret.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text as secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever must send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// In the address of the repository.
    Address(Secret),
    /// In a variable of the environment that Serin was started with.
    Variable {
        /// Its name.
        name: String,
        /// What it held.
        value: Secret,
    },
    /// In a file of its own, which is read again for every call. A line break at its end does not count.
    File(PathBuf),
}

/// How a token is shown to an http server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenScheme {
    /// As the password of basic authentication, which GitHub, GitLab, Gitea and Bitbucket take.
    #[default]
    Basic,
    /// As `Authorization: Bearer`.
    Bearer,
}

/// By which way an http server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proxy {
    /// As `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say.
    #[default]
    Environment,
    /// By no proxy, whatever the environment says.
    Direct,
    /// By this one: an `http://` URL, in which user and password may be.
    Through {
        /// The URL.
        url: Secret,
        /// The URL without user and password.
        shown: String,
    },
}

/// All that is known about how to get into a repository. What its address has no use for is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A folder as a mounted Secret of Kubernetes is one. Its files are used where nothing below says otherwise:
    /// `username`, `password`, `bearerToken`, `ca.crt`; `identity` or `ssh-privatekey`, `known_hosts`, and
    /// `password` as the passphrase of the key.
    pub folder: Option<PathBuf>,
    /// The user.
    pub username: Option<Secret>,
    /// The password of basic authentication.
    pub password: Option<SecretPlace>,
    /// A token; wins over the password.
    pub token: Option<SecretPlace>,
    /// How the token is shown.
    pub token_scheme: TokenScheme,
    /// Certificate authorities in PEM that are trusted beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The way to http servers.
    pub proxy: Proxy,
    /// The private key for ssh.
    pub private_key: Option<PathBuf>,
    /// What the private key is encrypted with.
    pub passphrase: Option<SecretPlace>,
    /// The host keys that are trusted, in the format of OpenSSH.
    pub known_hosts: Option<PathBuf>,
}

impl Access {
    /// Basic authentication with these two, and nothing else.
    pub fn basic(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            username: Some(Secret::new(username)),
            password: Some(SecretPlace::Address(Secret::new(password))),
            ..Self::default()
        }
    }

    /// Whether a password or a token is given.
    pub fn has_secret(&self) -> bool {
        let in_folder = |folder: &PathBuf| ["password", "bearerToken"].iter().any(|name| folder.join(name).exists());
        self.password.is_some() || self.token.is_some() || self.folder.as_ref().is_some_and(in_folder)
    }

    /// What to show an http server. The error says what cannot be read.
    pub(super) fn authorization(&self) -> Result<Option<Authorization>, String> {
        let in_folder = |name: &str| self.in_folder(&[name]);
        let token = match &self.token {
            Some(place) => Some((place.read()?, self.token_scheme)),
            None if self.password.is_none() => in_folder("bearerToken")?.map(|found| (found, TokenScheme::Bearer)),
            None => None,
        };
        let username = match &self.username {
            Some(username) => Some(username.expose().to_owned()),
            None => in_folder("username")?.map(|(text, _)| text),
        };
        let (user, (secret, from), what) = match token {
            Some((token, TokenScheme::Bearer)) => {
                let header = format!("Bearer {}", token.0);
                return Ok(Some(Authorization { header, what: "token", from: token.1, secrets: vec![token.0] }));
            }
            // What GitHub asks for with the token of an app; the others take any.
            Some((token, TokenScheme::Basic)) => {
                (username.unwrap_or_else(|| "x-access-token".to_owned()), token, "token")
            }
            None => {
                let password = match &self.password {
                    Some(place) => Some(place.read()?),
                    None => in_folder("password")?,
                };
                match (username, password) {
                    (None, None) => return Ok(None),
                    // A token in the place of the user, as in `https://TOKEN@host/`.
                    (Some(user), None) => {
                        let header = basic(&user, "");
                        let from = "the address".to_owned();
                        return Ok(Some(Authorization { header, what: "user name", from, secrets: vec![user] }));
                    }
                    (user, Some(password)) => (user.unwrap_or_else(|| "git".to_owned()), password, "password"),
                }
            }
        };
        let header = basic(&user, &secret);
        let encoded = header.trim_start_matches("Basic ").to_owned();
        Ok(Some(Authorization { header, what, from, secrets: vec![encoded, secret] }))
    }

    /// The certificate authorities, with the file that they are in.
    pub(super) fn authorities(&self) -> Result<Option<(Vec<u8>, PathBuf)>, String> {
        let path = match (&self.ca_file, &self.folder) {
            (Some(path), _) => path.clone(),
            (None, Some(folder)) if folder.join("ca.crt").exists() => folder.join("ca.crt"),
            (None, _) => return Ok(None),
        };
        Ok(Some((read(&path)?.into_bytes(), path)))
    }

    /// The private key for ssh.
    pub(super) fn key(&self) -> Result<Key, String> {
        let found = match &self.private_key {
            Some(path) => Some((read(path)?, path.display().to_string())),
            None => self.in_folder(&["identity", "ssh-privatekey"])?,
        };
        let Some((private, from)) = found else {
            return Err("ssh needs a private key, and none is given".to_owned());
        };
        let passphrase = match &self.passphrase {
            Some(place) => Some(place.read()?.0),
            None => self.in_folder(&["password"])?.map(|(text, _)| text),
        };
        // A text without its last line break is no key any more for some of those who read it.
        Ok(Key { private: private.trim_end().to_owned() + "\n", passphrase, from })
    }

    /// The text of the known hosts, and the file that it is in.
    pub(super) fn known_hosts(&self) -> Result<(String, PathBuf), String> {
        let path = match (&self.known_hosts, &self.folder) {
            (Some(path), _) => path.clone(),
            (None, Some(folder)) => folder.join("known_hosts"),
            (None, None) => return Err("ssh needs a file of known hosts, and none is given".to_owned()),
        };
        match fs::read_to_string(&path) {
            Ok(text) => Ok((text, path)),
            // So that the line to add is said at once.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((String::new(), path)),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// The first of these files that is in the folder: its text, and its path.
    fn in_folder(&self, names: &[&str]) -> Result<Option<(String, String)>, String> {
        let Some(folder) = &self.folder else { return Ok(None) };
        match names.iter().map(|name| folder.join(name)).find(|path| path.exists()) {
            Some(path) => Ok(Some((read(&path)?, path.display().to_string()))),
            None => Ok(None),
        }
    }
}

impl SecretPlace {
    /// The secret, and where it is.
    fn read(&self) -> Result<(String, String), String> {
        match self {
            Self::Address(secret) => Ok((secret.expose().to_owned(), "the address".to_owned())),
            Self::Variable { name, value } => Ok((value.expose().to_owned(), format!("the variable {name}"))),
            Self::File(path) => Ok((read(path)?, path.display().to_string())),
        }
    }
}

/// What an http server is shown.
pub(super) struct Authorization {
    /// The value of the header.
    pub(super) header: String,
    /// What it is, for people.
    pub(super) what: &'static str,
    /// Where it was found, for people.
    pub(super) from: String,
    /// What must appear in no text.
    pub(super) secrets: Vec<String>,
}

/// What an ssh server is shown.
pub(super) struct Key {
    pub(super) private: String,
    pub(super) passphrase: Option<String>,
    /// Where it was found, for people.
    pub(super) from: String,
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// The text of a file of credentials, without the line break at its end.
fn read(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("the file {} is empty", path.display())),
        text if text.contains('\0') => Err(format!("the file {} is no text", path.display())),
        text => Ok(text.to_owned()),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("the file {} cannot be read: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn header(access: &Access) -> String {
        access.authorization().unwrap().unwrap().header
    }

    #[test]
    fn a_mounted_secret_is_understood_and_read_again() {
        let mounted = folder(&[("username", "ann\n"), ("password", "s3cret\n")]);
        let access = Access { folder: Some(mounted.path().to_owned()), ..Access::default() };
        assert_eq!(header(&access), basic("ann", "s3cret"));
        fs::write(mounted.path().join("password"), "rotated").unwrap();
        assert_eq!(header(&access), basic("ann", "rotated"));
        fs::write(mounted.path().join("bearerToken"), "t0ken").unwrap();
        assert_eq!(header(&access), "Bearer t0ken");
        assert_eq!(access.authorities(), Ok(None));
        fs::write(mounted.path().join("ca.crt"), "pem").unwrap();
        assert_eq!(access.authorities().unwrap().unwrap().0, b"pem");
    }

    #[test]
    fn a_mounted_key_has_its_passphrase_beside_it() {
        let mounted = folder(&[("identity", "key"), ("password", "phrase\r\n"), ("known_hosts", "")]);
        let access = Access { folder: Some(mounted.path().to_owned()), ..Access::default() };
        let key = access.key().unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((key.private.as_str(), key.passphrase.as_deref()), ("key\n", Some("phrase")));
        assert!(key.from.ends_with("/identity"));
        assert_eq!(access.known_hosts().unwrap().0, "");
    }

    #[test]
    fn what_is_said_wins_over_what_is_in_the_folder() {
        let mounted = folder(&[("username", "ann"), ("bearerToken", "from-the-folder")]);
        let mut access = Access { folder: Some(mounted.path().to_owned()), ..Access::basic("bob", "pw") };
        assert_eq!(header(&access), basic("bob", "pw"));
        access.token = Some(SecretPlace::File(mounted.path().join("bearerToken")));
        access.username = None;
        assert_eq!(header(&access), basic("ann", "from-the-folder"));
        access.folder = None;
        assert_eq!(header(&access), basic("x-access-token", "from-the-folder"));
        access.token_scheme = TokenScheme::Bearer;
        assert_eq!(header(&access), "Bearer from-the-folder");
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_named() {
        let mounted = folder(&[("token", "\n")]);
        let mut access = Access::default();
        assert!(access.authorization().unwrap().is_none());
        access.token = Some(SecretPlace::File(mounted.path().join("token")));
        assert!(access.authorization().is_err_and(|why| why.ends_with("/token is empty")));
        access.token = Some(SecretPlace::File(mounted.path().join("nothing")));
        assert!(access.authorization().is_err_and(|why| why.contains("/nothing cannot be read: No such file")));
    }

    #[test]
    fn nothing_shows_a_secret() {
        let mut access = Access::basic("ann", "s3cret");
        access.proxy = Proxy::Through { url: Secret::new("http://u:s3cret@p"), shown: "http://p".to_owned() };
        let shown = format!("{access:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("ann"), "{shown}");
    }
}
