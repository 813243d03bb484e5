//! The `credentials` of a source: which files open its repository.
//!
//! Where the secret is counts here and not the secret: files are read by git, again at every call. What is wrong with
//! one at the start (not there, empty, of no use for this kind of address) is said at the start all the same.

use std::fs;
use std::path::{Path, PathBuf};

use crate::git::{Access, Proxy, Secret, SecretPlace, TokenScheme};
use crate::settings::check::{Checked, Invalid, parse_words};
use crate::settings::file::Text;
use crate::settings::origin::Origin;
use crate::settings::problem::Problem;
use crate::settings::repo::{AddressKind, RepoAddress};
use crate::settings::resolve::Resolver;

/// The fields of `credentials`, as written.
#[derive(Clone, Debug, Default)]
pub(crate) struct CredentialFields {
    /// `dir`: a folder as a mounted Secret is one.
    pub(crate) dir: Option<Text>,
    /// `username`: for basic authentication.
    pub(crate) username: Option<Text>,
    /// `passwordFile`.
    pub(crate) password_file: Option<Text>,
    /// `passwordEnv`: name of an environment variable.
    pub(crate) password_env: Option<Text>,
    /// `tokenFile`.
    pub(crate) token_file: Option<Text>,
    /// `tokenEnv`: name of an environment variable.
    pub(crate) token_env: Option<Text>,
    /// `tokenAs`: basic or bearer; default basic.
    pub(crate) token_as: Option<Text>,
    /// `caFile`: certificate authorities in PEM, beside those of the system.
    pub(crate) ca_file: Option<Text>,
    /// `proxy`: URL of an http proxy, or none; default as the environment says.
    pub(crate) proxy: Option<Text>,
    /// `privateKeyFile`: for ssh.
    pub(crate) private_key_file: Option<Text>,
    /// `passphraseFile`: of the private key.
    pub(crate) passphrase_file: Option<Text>,
    /// `knownHostsFile`: default `~/.ssh/known_hosts`.
    pub(crate) known_hosts_file: Option<Text>,
}

/// The names of the fields, as in the settings file.
pub(crate) const CREDENTIAL_FIELDS: [&str; 12] = [
    "dir",
    "username",
    "passwordFile",
    "passwordEnv",
    "tokenFile",
    "tokenEnv",
    "tokenAs",
    "caFile",
    "proxy",
    "privateKeyFile",
    "passphraseFile",
    "knownHostsFile",
];

impl CredentialFields {
    /// Those that are for one server only, and must not reach another.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Text> {
        let all = [
            &self.dir,
            &self.username,
            &self.password_file,
            &self.password_env,
            &self.token_file,
            &self.token_env,
            &self.private_key_file,
            &self.passphrase_file,
        ];
        all.into_iter().flatten()
    }

    fn for_http(&self) -> [&Option<Text>; 8] {
        [
            &self.username,
            &self.password_file,
            &self.password_env,
            &self.token_file,
            &self.token_env,
            &self.token_as,
            &self.ca_file,
            &self.proxy,
        ]
    }

    fn for_ssh(&self) -> [&Option<Text>; 3] {
        [&self.private_key_file, &self.passphrase_file, &self.known_hosts_file]
    }

    fn has_secret(&self) -> bool {
        self.password_file.is_some()
            || self.password_env.is_some()
            || self.token_file.is_some()
            || self.token_env.is_some()
    }

    /// Whether they say by themselves how to get in.
    pub(crate) fn opens(&self) -> bool {
        self.dir.is_some() || self.has_secret() || self.private_key_file.is_some()
    }

    /// These without what opens a repository.
    fn without_secrets(self) -> Self {
        Self {
            dir: None,
            password_file: None,
            password_env: None,
            token_file: None,
            token_env: None,
            private_key_file: None,
            passphrase_file: None,
            ..self
        }
    }

    /// Those of them that may be shown to another server than the one that they were written for; none, where that is
    /// reached in another way.
    pub(crate) fn for_elsewhere(self, is_reached_alike: bool) -> Self {
        if is_reached_alike { Self { username: None, ..self.without_secrets() } } else { Self::default() }
    }

    /// These, and what they leave open from a `weaker` place that speaks of the same source. All that opens a repository is
    /// one choice.
    fn over(self, weaker: Self) -> Self {
        let weaker = if self.opens() { weaker.without_secrets() } else { weaker };
        self.filled_up(weaker)
    }

    /// These, and what they leave open from the defaults, which may have been written for another server: where it is said
    /// how to get in, here or in the address (`has_login`), neither a secret nor a user of theirs goes there.
    fn or_default(self, defaults: Self, has_login: bool) -> Self {
        let defaults = if self.opens() || has_login { defaults.for_elsewhere(true) } else { defaults };
        self.filled_up(defaults)
    }

    fn filled_up(self, other: Self) -> Self {
        Self {
            dir: self.dir.or(other.dir),
            username: self.username.or(other.username),
            password_file: self.password_file.or(other.password_file),
            password_env: self.password_env.or(other.password_env),
            token_file: self.token_file.or(other.token_file),
            token_env: self.token_env.or(other.token_env),
            token_as: self.token_as.or(other.token_as),
            ca_file: self.ca_file.or(other.ca_file),
            proxy: self.proxy.or(other.proxy),
            private_key_file: self.private_key_file.or(other.private_key_file),
            passphrase_file: self.passphrase_file.or(other.passphrase_file),
            known_hosts_file: self.known_hosts_file.or(other.known_hosts_file),
        }
    }
}

/// How the repository of the source `index` is opened.
pub(crate) fn resolve_access(
    resolver: &mut Resolver<'_>,
    index: usize,
    repo: &RepoAddress,
    at: &Origin,
    flags: &CredentialFields,
    own: CredentialFields,
    defaults: &CredentialFields,
) -> Access {
    // Flags and variables stand above every file.
    let said = flags.clone().over(own);
    refuse_useless(resolver, repo, &said);
    let is_own_folder = said.dir.is_some() && said.known_hosts_file.is_none();
    let mut fields = said.or_default(defaults.clone(), repo.credentials().is_some());
    // What defaults say for other kinds of address is not about this one.
    match repo.kind() {
        AddressKind::Http => {
            (fields.private_key_file, fields.passphrase_file, fields.known_hosts_file) = (None, None, None);
        }
        AddressKind::Ssh => {
            fields = CredentialFields {
                dir: fields.dir,
                private_key_file: fields.private_key_file,
                passphrase_file: fields.passphrase_file,
                known_hosts_file: fields.known_hosts_file,
                ..CredentialFields::default()
            };
        }
        AddressKind::Other => fields = CredentialFields::default(),
    }
    refuse_two_secrets(resolver, repo, &fields);
    if resolver.needs_no_credentials {
        return Access::default();
    }
    let path = |field: &str| format!("sources[{index}].credentials.{field}");
    let token = resolver
        .variable(&path("tokenEnv"), fields.token_env)
        .or_else(|| resolver.file(&path("tokenFile"), fields.token_file).map(SecretPlace::File));
    let password = resolver
        .variable(&path("passwordEnv"), fields.password_env)
        .or_else(|| resolver.file(&path("passwordFile"), fields.password_file).map(SecretPlace::File));
    let mut access = Access {
        folder: resolver.folder(&path("dir"), fields.dir, repo.kind()),
        username: resolver.parse(&path("username"), fields.username, parse_words).map(Secret::new),
        password,
        token,
        token_scheme: resolver.parse(&path("tokenAs"), fields.token_as, parse_token_scheme).unwrap_or_default(),
        ca_file: resolver.file(&path("caFile"), fields.ca_file),
        proxy: resolver.parse(&path("proxy"), fields.proxy, parse_proxy).unwrap_or_default(),
        private_key: resolver.file(&path("privateKeyFile"), fields.private_key_file.clone()),
        passphrase: resolver.file(&path("passphraseFile"), fields.passphrase_file).map(SecretPlace::File),
        known_hosts: resolver.path(&path("knownHostsFile"), fields.known_hosts_file.clone()),
    };
    if repo.kind() == AddressKind::Ssh {
        if fields.private_key_file.is_none() && access.folder.is_none() {
            let message = format!("{repo} is reached by ssh, which needs a private key");
            let hint = "say privateKeyFile, or dir with a file `identity`, in its credentials (--private-key-file, --credentials-dir)";
            resolver.problems.push(Problem::new(at.clone(), message).hint(hint));
        }
        let in_folder = access.folder.as_ref().is_some_and(|folder| folder.join("known_hosts").exists());
        if is_own_folder && in_folder {
            // Which servers are trusted is said in the folder of the source: the defaults do not say more.
            fields.known_hosts_file = None;
            access.known_hosts = None;
        }
        if fields.known_hosts_file.is_none() && !in_folder {
            access.known_hosts = resolver.home().map(|home| home.join(".ssh/known_hosts"));
        }
        match &access.known_hosts {
            Some(file) if !file.exists() => resolver.warnings.push(format!(
                "{} is not there, so the host of {repo} is refused; the error will say which line to put into it",
                file.display()
            )),
            None if !in_folder => {
                let message = format!("{repo} is reached by ssh, and nothing says which host keys are trusted");
                resolver.problems.push(Problem::new(at.clone(), message).hint("say --known-hosts-file"));
            }
            _ => {}
        }
    }
    access
}

fn refuse_useless(resolver: &mut Resolver<'_>, repo: &RepoAddress, said: &CredentialFields) {
    let (useless, what): (Vec<&Option<Text>>, _) = match repo.kind() {
        AddressKind::Http => (said.for_ssh().into(), "is for ssh"),
        AddressKind::Ssh => (said.for_http().into(), "is for http and https"),
        AddressKind::Other => {
            (said.for_http().into_iter().chain(said.for_ssh()).chain([&said.dir]).collect(), "is for https and ssh")
        }
    };
    for text in useless.into_iter().flatten() {
        let message = format!("this {what}, and {repo} is not reached that way");
        let message =
            if matches!(text.origin, Origin::File { .. }) { message } else { format!("{}: {message}", text.origin) };
        resolver.problems.push(Problem::new(text.origin.clone(), message));
    }
}

fn refuse_two_secrets(resolver: &mut Resolver<'_>, repo: &RepoAddress, fields: &CredentialFields) {
    let all = [&fields.password_file, &fields.password_env, &fields.token_file, &fields.token_env];
    let given: Vec<&Text> = all.into_iter().flatten().collect();
    if let [first, second, ..] = given[..] {
        let message = format!("a password or token is given twice: here and at {}", first.origin);
        resolver.problems.push(Problem::new(second.origin.clone(), message).hint("say one of them"));
    }
    if let (Some(given), Some(_)) = (given.first(), repo.credentials()) {
        let message = format!("the address of {repo} has credentials in it already");
        resolver.problems.push(Problem::new(given.origin.clone(), message).hint("take them out of the address"));
    }
}

impl Resolver<'_> {
    /// A file that is there and holds something.
    fn file(&mut self, path: &str, given: Option<Text>) -> Option<PathBuf> {
        let base = given.as_ref().map(|given| self.base(&given.origin).to_path_buf())?;
        self.parse(path, given, |text| check_file(&base.join(parse_words(text)?)))
    }

    fn folder(&mut self, path: &str, given: Option<Text>, kind: AddressKind) -> Option<PathBuf> {
        let base = given.as_ref().map(|given| self.base(&given.origin).to_path_buf())?;
        self.parse(path, given, |text| check_folder(&base.join(parse_words(text)?), kind))
    }

    fn variable(&mut self, path: &str, given: Option<Text>) -> Option<SecretPlace> {
        self.parse(path, given, |name| match std::env::var(name) {
            Ok(value) if !value.trim().is_empty() => {
                Ok(SecretPlace::Variable { name: name.to_owned(), value: Secret::new(value.trim()) })
            }
            Ok(_) => Err(invalid(format!("the environment variable {name} is empty"), None)),
            Err(_) => Err(invalid(
                format!("there is no environment variable of the name {name:?}"),
                Some("this is the name of a variable, not the secret itself"),
            )),
        })
    }
}

fn invalid(why: impl Into<String>, hint: Option<&str>) -> Invalid {
    Invalid { why: why.into(), hint: hint.map(str::to_owned) }
}

fn check_file(path: &Path) -> Checked<PathBuf> {
    let shown = path.display();
    match fs::read(path) {
        Ok(bytes) if bytes.trim_ascii().is_empty() => Err(invalid(format!("the file {shown} is empty"), None)),
        Ok(_) => Ok(path.to_owned()),
        Err(error) => Err(invalid(format!("the file {shown} cannot be read: {error}"), None)),
    }
}

fn check_folder(path: &Path, kind: AddressKind) -> Checked<PathBuf> {
    let shown = path.display();
    if !path.is_dir() {
        return Err(invalid(format!("{shown} is not a folder"), None));
    }
    let useful: &[&str] = match kind {
        AddressKind::Ssh => &["identity", "ssh-privatekey"],
        _ => &["username", "password", "bearerToken", "ca.crt"],
    };
    if useful.iter().any(|name| path.join(name).exists()) {
        return Ok(path.to_owned());
    }
    Err(invalid(format!("the folder {shown} holds none of the files {}", useful.join(", ")), None))
}

fn parse_token_scheme(text: &str) -> Checked<TokenScheme> {
    match text.to_ascii_lowercase().as_str() {
        "basic" => Ok(TokenScheme::Basic),
        "bearer" => Ok(TokenScheme::Bearer),
        _ => Err(invalid(format!("{text:?} is neither basic nor bearer"), None)),
    }
}

/// The text is in no error: it may hold a password.
fn parse_proxy(text: &str) -> Checked<Proxy> {
    if text == "none" {
        return Ok(Proxy::Direct);
    }
    let hint = Some("write http://proxy.example:3128, or none");
    let Some(rest) = text.strip_prefix("http://") else {
        return Err(invalid("this is no http:// address of a proxy", hint));
    };
    let authority = rest.trim_end_matches('/');
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    if login.is_some_and(|login| login.ends_with(":***")) {
        let why = "its password is the `***` that --print-config shows instead";
        return Err(invalid(why, Some("put the real one back")));
    }
    if host.is_empty()
        || host.starts_with(':')
        || authority.contains(['/', '?', '#'])
        || host.contains(char::is_whitespace)
    {
        return Err(invalid("this is no http:// address of a proxy", hint));
    }
    let shown = match login {
        Some(login) => format!("http://{}:***@{host}", login.split(':').next().unwrap_or_default()),
        None => format!("http://{host}"),
    };
    Ok(Proxy::Through { url: Secret::new(text), shown })
}

/// The credentials as lines of a settings file: field and value, never a secret.
pub(crate) fn render_access(access: &Access) -> Vec<(&'static str, String)> {
    let Access {
        folder,
        username,
        password,
        token,
        token_scheme,
        ca_file,
        proxy,
        private_key,
        passphrase,
        known_hosts,
    } = access;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let place = |place: &SecretPlace, file: &'static str, variable: &'static str| match place {
        SecretPlace::File(at) => Some((file, path(at))),
        SecretPlace::Variable { name, .. } => Some((variable, name.clone())),
        // Shown with the address that it is in.
        SecretPlace::Address(_) => None,
    };
    let lines = [
        folder.as_ref().map(|at| ("dir", path(at))),
        username.as_ref().map(|user| ("username", user.expose().to_owned())),
        password.as_ref().and_then(|at| place(at, "passwordFile", "passwordEnv")),
        token.as_ref().and_then(|at| place(at, "tokenFile", "tokenEnv")),
        (*token_scheme == TokenScheme::Bearer).then(|| ("tokenAs", "bearer".to_owned())),
        ca_file.as_ref().map(|at| ("caFile", path(at))),
        match proxy {
            Proxy::Environment => None,
            Proxy::Direct => Some(("proxy", "none".to_owned())),
            Proxy::Through { shown, .. } => Some(("proxy", shown.clone())),
        },
        private_key.as_ref().map(|at| ("privateKeyFile", path(at))),
        passphrase.as_ref().and_then(|at| place(at, "passphraseFile", "passphraseFile")),
        known_hosts.as_ref().map(|at| ("knownHostsFile", path(at))),
    ];
    lines.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use crate::settings::render_config;
    use crate::settings::tests::{bad, good};

    const BASE: [&str; 2] = ["--cluster-name=prod", "--repo"];

    /// A folder with these files.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn flags<'a>(repo: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&BASE[..], &[repo], more].concat()
    }

    #[test]
    fn what_opens_a_repository_is_shown_without_any_secret() {
        let folder = folder(&[("t", "s3cret"), ("ca", "pem"), ("k", "s3cret key")]);
        let at = |name: &str| folder.path().join(name).display().to_string();
        let flag = |name: &str, file: &str| format!("--{name}={}", at(file));
        let (token, authorities) = (flag("token-file", "t"), flag("ca-file", "ca"));
        let https = flags(
            "https://h/x.git",
            &[&token, &authorities, "--token-as=bearer", "--username=ann", "--proxy=http://u:s3cret@p:3128"],
        );
        let page = render_config(&good(&https, None));
        for line in [
            format!("    tokenFile: {} # --token-file", at("t")),
            "    tokenAs: bearer # --token-as".to_owned(),
            format!("    caFile: {} # --ca-file", at("ca")),
            "    username: ann # --username".to_owned(),
            "    proxy: \"http://u:***@p:3128\" # --proxy".to_owned(),
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(!page.contains("s3cret"), "{page}");

        let key = flag("private-key-file", "k");
        let loaded = good(&flags("git@h:x.git", &[&key]), None);
        assert!(render_config(&loaded).contains("knownHostsFile: /home/ann/.ssh/known_hosts # default"));
        assert!(loaded.warnings.iter().any(|warning| warning.contains("known_hosts is not there")));
        assert!(!format!("{loaded:?}").contains("s3cret"));
    }

    #[test]
    fn a_variable_is_named_and_its_value_is_not_shown() {
        // Every process has this one.
        let value = std::env::var("PATH").unwrap();
        let loaded = good(&flags("https://h/x.git", &["--token-env=PATH"]), None);
        let page = render_config(&loaded);
        assert!(page.contains("tokenEnv: PATH # --token-env"), "{page}");
        assert!(!format!("{page}{loaded:?}").contains(&value));
        let problem = bad(&flags("https://h/x.git", &["--token-env=ghp_0123"]), None);
        assert!(problem.contains("this is the name of a variable, not the secret itself"), "{problem}");
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_a_problem_at_its_place() {
        let folder = folder(&[("empty", "\n")]);
        let empty = format!("--password-file={}/empty", folder.path().display());
        let problem = bad(&flags("https://h/x.git", &[&empty, "--ca-file=nothing"]), None);
        assert!(problem.contains("--ca-file: the file /here/nothing cannot be read: No such file"), "{problem}");
        assert!(problem.contains("/empty is empty"), "{problem}");
        let dir = format!("--credentials-dir={}", folder.path().display());
        let problem = bad(&flags("https://h/x.git", &[&dir]), None);
        assert!(problem.contains("holds none of the files username, password, bearerToken, ca.crt"), "{problem}");
        let problem = bad(&flags("git@h:x.git", &[&dir]), None);
        assert!(problem.contains("holds none of the files identity, ssh-privatekey"), "{problem}");
    }

    #[test]
    fn what_does_not_fit_the_address_is_refused() {
        let folder = folder(&[("f", "x")]);
        let file = folder.path().join("f").display().to_string();
        for (repo, flag, why) in [
            ("https://h/x.git", "private-key-file", "this is for ssh, and https://h/x.git is not reached that way"),
            ("git@h:x.git", "token-file", "this is for http and https"),
            ("git://h/x.git", "password-file", "this is for https and ssh"),
            ("/srv/x.git", "ca-file", "this is for https and ssh"),
            ("https://a:b@h/x.git", "token-file", "the address of https://h/x.git has credentials in it already"),
        ] {
            let problem = bad(&flags(repo, &[&format!("--{flag}={file}")]), None);
            assert!(problem.contains(why), "{repo} {flag}: {problem}");
        }
        let problem = bad(&flags("ssh://git@h/x.git", &[]), None);
        assert!(
            problem.contains("--repo: ssh://git@h/x.git is reached by ssh, which needs a private key"),
            "{problem}"
        );
        let both = [format!("--token-file={file}"), format!("--password-file={file}")];
        let problem = bad(&flags("https://h/x.git", &[&both[0], &both[1]]), None);
        assert!(problem.contains("a password or token is given twice: here and at --password-file"), "{problem}");
        for proxy in ["socks5://p:1", "http://", "http://u:s3cret@", "http://u:***@p:1"] {
            let problem = bad(&flags("https://h/x.git", &[&format!("--proxy={proxy}")]), None);
            assert!(problem.contains("proxy") && !problem.contains("s3cret"), "{problem}");
        }
    }

    #[test]
    fn a_source_takes_from_the_defaults_what_is_of_use_to_it() {
        let folder = folder(&[("t", "x"), ("p", "x"), ("identity", "x"), ("known_hosts", "x")]);
        let dir = folder.path().display();
        let file = format!(
            "clusterName: c\ndefaults:\n  credentials: {{tokenFile: {dir}/t, privateKeyFile: {dir}/identity}}\nsources:\n\
             - {{name: a, repo: https://h/a.git}}\n\
             - {{name: b, repo: https://h/b.git, credentials: {{passwordFile: {dir}/p}}}}\n\
             - {{name: c, repo: git@h:c.git, credentials: {{dir: {dir}}}}}\n\
             - {{name: d, repo: /srv/d.git}}\n"
        );
        let loaded = good(&[], Some(&file));
        let [a, b, c, d] = &loaded.settings.sources[..] else { panic!("four sources") };
        assert!(a.access.token.is_some() && a.access.private_key.is_none());
        assert!(b.access.token.is_none() && b.access.password.is_some());
        // Its folder opens it: the key of the defaults is for other servers.
        assert!(c.access.token.is_none() && c.access.private_key.is_none() && c.access.known_hosts.is_none());
        assert_eq!(d.access, crate::git::Access::default());
        let problem = bad(&[&format!("--token-file={dir}/t")], Some(&file));
        assert!(problem.contains("--token-file cannot tell which of the 4 sources"), "{problem}");
        let misspelt = file.replace("passwordFile", "passwordfile");
        assert!(bad(&[], Some(&misspelt)).contains("did you mean `passwordFile`?"));
    }

    #[test]
    fn no_secret_of_the_defaults_goes_to_a_server_that_has_its_own() {
        let files = [("t", "x"), ("k", "x"), ("h", "x"), ("ca", "x"), ("identity", "x"), ("password", "x")];
        let folder = folder(&files);
        std::fs::create_dir(folder.path().join("bare")).unwrap();
        std::fs::write(folder.path().join("bare/identity"), "x").unwrap();
        std::fs::write(folder.path().join("known_hosts"), "x").unwrap();
        let dir = folder.path().display();
        let load = |defaults: &str, repo: &str, own: &str| {
            let file = format!(
                "clusterName: c\ndefaults: {{credentials: {{{defaults}}}}}\nsources:\n\
                 - {{name: a, repo: '{repo}', credentials: {{{own}}}}}\n"
            );
            good(&[], Some(&file)).settings.sources[0].access.clone()
        };
        let https = format!("username: ann, tokenFile: {dir}/t, caFile: {dir}/ca");
        let by_folder = load(&https, "https://h/a.git", &format!("dir: {dir}"));
        assert_eq!((&by_folder.token, &by_folder.username), (&None, &None));
        assert!(by_folder.ca_file.is_some());
        let by_password = load(&https, "https://h/a.git", &format!("passwordFile: {dir}/password"));
        assert_eq!((&by_password.token, &by_password.username), (&None, &None));
        let by_address = load(&https, "https://bob:pw@h/a.git", "");
        assert_eq!((&by_address.token, &by_address.username), (&None, &None));
        let by_address = load(&format!("dir: {dir}"), "https://bob:pw@h/a.git", "");
        assert_eq!(by_address.folder, None);
        let by_token = load(&format!("dir: {dir}"), "https://h/a.git", &format!("tokenFile: {dir}/t"));
        assert_eq!(by_token.folder, None);

        let ssh = format!("privateKeyFile: {dir}/k, passphraseFile: {dir}/t, knownHostsFile: {dir}/h");
        let by_folder = load(&ssh, "git@h:a.git", &format!("dir: {dir}"));
        assert_eq!((&by_folder.private_key, &by_folder.passphrase, &by_folder.known_hosts), (&None, &None, &None));
        let by_key = load(&ssh, "git@h:a.git", &format!("privateKeyFile: {dir}/identity"));
        assert_eq!((by_key.passphrase, by_key.private_key), (None, Some(folder.path().join("identity"))));
        // Which servers are trusted is no secret: where nothing nearer says it, the defaults do.
        assert_eq!(by_key.known_hosts, Some(folder.path().join("h")));
        let by_bare_folder = load(&ssh, "git@h:a.git", &format!("dir: {dir}/bare"));
        assert_eq!(by_bare_folder.known_hosts, Some(folder.path().join("h")));
        // And without credentials of its own, a source takes all of them.
        assert!(load(&https, "https://h/a.git", "").token.is_some());
        assert!(load(&https, "https://h/a.git", "username: bob").token.is_some());
    }

    #[test]
    fn a_flag_that_opens_a_repository_replaces_what_the_file_says_and_keeps_the_user() {
        let folder = folder(&[("t", "x"), ("password", "x")]);
        let dir = folder.path().display();
        let file = format!(
            "clusterName: c\nsources:\n- {{name: a, repo: https://h/a.git, credentials: {{username: ann, tokenFile: {dir}/t}}}}\n"
        );
        let loaded = good(&[&format!("--credentials-dir={dir}")], Some(&file));
        let access = &loaded.settings.sources[0].access;
        assert!(access.token.is_none() && access.folder.is_some() && access.username.is_some());
    }

    #[test]
    fn a_flag_for_another_server_does_not_get_what_the_file_says_for_its_own() {
        let folder = folder(&[("t", "x"), ("d", "x")]);
        let dir = folder.path().display();
        let own = format!(
            "clusterName: c\nsources:\n- {{name: a, repo: https://h/a.git, credentials: {{username: ann, tokenFile: {dir}/t}}}}\n"
        );
        let defaults = format!(
            "clusterName: c\ndefaults: {{credentials: {{username: ann, tokenFile: {dir}/t}}}}\nsources:\n- {{name: a, repo: https://h/a.git}}\n"
        );
        for file in [&own, &defaults] {
            for elsewhere in
                ["https://other/a.git", "https://h:8443/a.git", "http://h/a.git", "https://other/x@h/a.git"]
            {
                let loaded = good(&["--repo", elsewhere], Some(file));
                let access = &loaded.settings.sources[0].access;
                assert!(access.token.is_none() && access.username.is_none(), "{elsewhere}");
                let told = format!("credentials for https://h/a.git in the settings file are not used for {elsewhere}");
                assert!(loaded.warnings.iter().any(|warning| warning.contains(&told)), "{:?}", loaded.warnings);
            }
            for same in ["https://h/b.git", "https://H/a.git", "https://h:443/a.git", "https://h/x@y/b.git"] {
                let loaded = good(&["--repo", same], Some(file));
                assert!(loaded.settings.sources[0].access.token.is_some(), "{same}");
            }
            assert!(good(&["--repo", "/srv/a.git"], Some(file)).settings.sources[0].access.token.is_none());
            let given = good(&["--repo", "https://other/a.git", &format!("--token-file={dir}/d")], Some(file));
            assert!(given.settings.sources[0].access.token.is_some(), "what is given beside it is for it");
        }
    }

    #[test]
    fn a_token_over_plain_http_is_warned_about() {
        let loaded = good(&flags("http://h/x.git", &["--token-env=PATH"]), None);
        assert!(
            loaded.warnings.iter().any(|warning| warning.contains("password or token unencrypted to http://h/x.git"))
        );
    }
}
