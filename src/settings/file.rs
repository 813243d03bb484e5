//! The settings file: its fields, and reading them with every mistake noted.

use std::sync::Arc;

use crate::manifest::nearest;
use crate::settings::credentials::{CREDENTIAL_FIELDS, CredentialFields};
use crate::settings::document::{Node, Value, parse_document};
use crate::settings::origin::{Origin, Setting};
use crate::settings::problem::Problem;

/// A text and where it is.
pub(crate) type Text = Setting<String>;

/// A list of texts and where it starts.
pub(crate) type Texts = Setting<Vec<Text>>;

/// The settings file as written. Durations are in Go syntax (`90s`, `1h30m`).
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSettings {
    /// `clusterName`: name of this cluster; required for a real one.
    pub(crate) cluster_name: Option<Text>,
    /// `simulate`: use the cluster inside the program; default false.
    pub(crate) simulate: Option<Text>,
    /// `kubernetes.context`: context of the kubeconfig; default its current one.
    pub(crate) context: Option<Text>,
    /// `kubernetes.kubeconfig`: a file, relative to this one; default as kubectl.
    pub(crate) kubeconfig: Option<Text>,
    /// `kubernetes.namespaces`: namespaces to watch and to roll out in; default all.
    pub(crate) watched_namespaces: Option<Texts>,
    /// `sources`: the repositories.
    pub(crate) sources: Vec<FileSource>,
    /// `defaults`: what a source that does not say otherwise gets.
    pub(crate) defaults: SourceFields,
    /// `mirrorDir`: folder of the mirrors, relative to this file.
    pub(crate) mirror_dir: Option<Text>,
    /// `gitTimeout`: how long a git server may keep silent; default 30s.
    pub(crate) git_timeout: Option<Text>,
    /// `statusBranch.enabled`: whether observations are written to git; default true.
    pub(crate) status_enabled: Option<Text>,
    /// `statusBranch.name`: default `serin/status/<clusterName>`.
    pub(crate) status_branch: Option<Text>,
    /// `statusBranch.interval`: at most one commit per repository in this time; default 10s.
    pub(crate) status_interval: Option<Text>,
    /// `listen`: address of metrics and health, or `none`; default 0.0.0.0:8080.
    pub(crate) listen: Option<Text>,
    /// `log.format`: auto, text or json; default auto.
    pub(crate) log_format: Option<Text>,
    /// `log.level`: default info.
    pub(crate) log_level: Option<Text>,
    /// `images.facade`: image of the facade for agents that name none.
    pub(crate) facade_image: Option<Text>,
    /// `images.frameworks`: image of the runtime by framework type.
    pub(crate) framework_images: Vec<(Text, Text)>,
    /// `workers`: how many agents are looked at side by side; default 32.
    pub(crate) workers: Option<Text>,
    /// `lease.enabled`: whether a second Serin of this cluster is kept passive; default true.
    pub(crate) lease_enabled: Option<Text>,
    /// `lease.name`: default serin.
    pub(crate) lease_name: Option<Text>,
    /// `lease.namespace`: default the first watched one, else that of the pod or of the kubeconfig's context.
    pub(crate) lease_namespace: Option<Text>,
}

/// One of `sources`.
#[derive(Clone, Debug)]
pub(crate) struct FileSource {
    /// Where it starts.
    pub(crate) at: Origin,
    /// `name`: required, unique.
    pub(crate) name: Option<Text>,
    /// `repo`: URL or path (relative to this file); required.
    pub(crate) repo: Option<Text>,
    /// `branch`: default main.
    pub(crate) branch: Option<Text>,
    /// `tag`: instead of a branch.
    pub(crate) tag: Option<Text>,
    /// `commit`: instead of a branch.
    pub(crate) commit: Option<Text>,
    /// `path`: folder with the manifests; default the whole repository.
    pub(crate) path: Option<Text>,
    /// `webhook`: the secret that its deliveries are checked with; default none, and no deliveries.
    pub(crate) webhook: FileWebhook,
    /// `adoptFrom`: sources whose objects this one takes over; default none.
    pub(crate) adopt_from: Option<Texts>,
    /// The fields that `defaults` has too.
    pub(crate) fields: SourceFields,
}

/// `webhook` of a source: one of the two.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileWebhook {
    /// `webhook.secretFile`: a file, relative to this one.
    pub(crate) secret_file: Option<Text>,
    /// `webhook.secretEnv`: the name of an environment variable.
    pub(crate) secret_env: Option<Text>,
}

/// What `defaults` and each source may say.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFields {
    /// `defaultNamespace`: namespace of objects that name none; default `default`.
    pub(crate) default_namespace: Option<Text>,
    /// `kinds`: kinds that may be applied; default `*.omnia.altairalabs.ai` and `ConfigMap`.
    pub(crate) kinds: Option<Texts>,
    /// `namespaces`: namespaces that may be applied to; default any.
    pub(crate) namespaces: Option<Texts>,
    /// `pollInterval`: how often the repository is asked; default 60s.
    pub(crate) poll_interval: Option<Text>,
    /// `author.name`: default Serin.
    pub(crate) author_name: Option<Text>,
    /// `author.email`: default `serin@<clusterName>.invalid`.
    pub(crate) author_email: Option<Text>,
    /// `credentials`: what opens the repository; default nothing.
    pub(crate) credentials: CredentialFields,
}

const SOURCE_FIELDS: [&str; 6] = ["defaultNamespace", "kinds", "namespaces", "pollInterval", "author", "credentials"];

/// Reads the file `name` with the contents `text`. What is wrong is added to `problems`; the rest counts.
pub(crate) fn parse_file(name: &str, text: &str, problems: &mut Vec<Problem>) -> FileSettings {
    let mut reader = Reader { problems };
    match parse_document(&Arc::from(name), text) {
        Ok(root) => reader.settings(root),
        Err(problem) => {
            reader.problems.push(problem);
            FileSettings::default()
        }
    }
}

struct Reader<'a> {
    problems: &'a mut Vec<Problem>,
}

/// The fields of one mapping, each taken out as it is read.
struct Fields(Vec<(String, Origin, Node)>);

impl Fields {
    fn take(&mut self, name: &str) -> Option<Node> {
        let at = self.0.iter().position(|(key, ..)| key == name)?;
        Some(self.0.swap_remove(at).2).filter(|node| !matches!(node.value, Value::Nothing))
    }
}

impl Reader<'_> {
    fn settings(&mut self, root: Node) -> FileSettings {
        let mut all = self.fields(
            root,
            "the settings",
            &[
                "clusterName",
                "simulate",
                "kubernetes",
                "sources",
                "defaults",
                "mirrorDir",
                "gitTimeout",
                "statusBranch",
                "listen",
                "log",
                "images",
                "workers",
                "lease",
            ],
        );
        let mut kubernetes = self.section(&mut all, "kubernetes", &["context", "kubeconfig", "namespaces"]);
        let mut status = self.section(&mut all, "statusBranch", &["enabled", "name", "interval"]);
        let mut log = self.section(&mut all, "log", &["format", "level"]);
        let mut lease = self.section(&mut all, "lease", &["enabled", "name", "namespace"]);
        let mut images = self.section(&mut all, "images", &["facade", "frameworks"]);
        let mut defaults = self.section(&mut all, "defaults", &SOURCE_FIELDS);
        FileSettings {
            cluster_name: self.text(&mut all, "clusterName"),
            simulate: self.text(&mut all, "simulate"),
            context: self.text(&mut kubernetes, "context"),
            kubeconfig: self.text(&mut kubernetes, "kubeconfig"),
            watched_namespaces: self.texts(&mut kubernetes, "namespaces"),
            sources: self.items(&mut all, "sources").into_iter().map(|node| self.source(node)).collect(),
            defaults: self.source_fields(&mut defaults),
            mirror_dir: self.text(&mut all, "mirrorDir"),
            git_timeout: self.text(&mut all, "gitTimeout"),
            status_enabled: self.text(&mut status, "enabled"),
            status_branch: self.text(&mut status, "name"),
            status_interval: self.text(&mut status, "interval"),
            listen: self.text(&mut all, "listen"),
            log_format: self.text(&mut log, "format"),
            log_level: self.text(&mut log, "level"),
            facade_image: self.text(&mut images, "facade"),
            framework_images: self.pairs(&mut images, "frameworks"),
            workers: self.text(&mut all, "workers"),
            lease_enabled: self.text(&mut lease, "enabled"),
            lease_name: self.text(&mut lease, "name"),
            lease_namespace: self.text(&mut lease, "namespace"),
        }
    }

    fn source(&mut self, node: Node) -> FileSource {
        let at = node.at.clone();
        let known = ["name", "repo", "branch", "tag", "commit", "path", "webhook", "adoptFrom"];
        let mut fields = self.fields(node, "a source", &[&known[..], &SOURCE_FIELDS[..]].concat());
        let mut webhook = self.section(&mut fields, "webhook", &["secretFile", "secretEnv"]);
        FileSource {
            at,
            name: self.text(&mut fields, "name"),
            repo: self.text(&mut fields, "repo"),
            branch: self.text(&mut fields, "branch"),
            tag: self.text(&mut fields, "tag"),
            commit: self.text(&mut fields, "commit"),
            path: self.text(&mut fields, "path"),
            webhook: FileWebhook {
                secret_file: self.text(&mut webhook, "secretFile"),
                secret_env: self.text(&mut webhook, "secretEnv"),
            },
            adopt_from: self.texts(&mut fields, "adoptFrom"),
            fields: self.source_fields(&mut fields),
        }
    }

    fn source_fields(&mut self, fields: &mut Fields) -> SourceFields {
        let mut author = self.section(fields, "author", &["name", "email"]);
        SourceFields {
            default_namespace: self.text(fields, "defaultNamespace"),
            kinds: self.texts(fields, "kinds"),
            namespaces: self.texts(fields, "namespaces"),
            poll_interval: self.text(fields, "pollInterval"),
            author_name: self.text(&mut author, "name"),
            author_email: self.text(&mut author, "email"),
            credentials: self.credentials(fields),
        }
    }

    fn credentials(&mut self, fields: &mut Fields) -> CredentialFields {
        let mut own = self.section(fields, "credentials", &CREDENTIAL_FIELDS);
        CredentialFields {
            dir: self.text(&mut own, "dir"),
            username: self.text(&mut own, "username"),
            password_file: self.text(&mut own, "passwordFile"),
            password_env: self.text(&mut own, "passwordEnv"),
            token_file: self.text(&mut own, "tokenFile"),
            token_env: self.text(&mut own, "tokenEnv"),
            token_as: self.text(&mut own, "tokenAs"),
            ca_file: self.text(&mut own, "caFile"),
            proxy: self.text(&mut own, "proxy"),
            private_key_file: self.text(&mut own, "privateKeyFile"),
            passphrase_file: self.text(&mut own, "passphraseFile"),
            known_hosts_file: self.text(&mut own, "knownHostsFile"),
        }
    }

    fn fields(&mut self, node: Node, what: &str, known: &[&str]) -> Fields {
        let Value::Map(entries) = node.value else {
            let found = node.value.describe();
            self.problems.push(Problem::new(node.at, format!("{what} must be a mapping, this is {found}")));
            return Fields(Vec::new());
        };
        for (key, at, _) in &entries {
            if !known.contains(&key.as_str()) {
                let hint = match nearest(key, known.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("{what} has {}", known.join(", ")),
                };
                self.problems.push(Problem::new(at.clone(), format!("unknown field `{key}`")).hint(hint));
            }
        }
        Fields(entries)
    }

    fn section(&mut self, fields: &mut Fields, name: &str, known: &[&str]) -> Fields {
        match fields.take(name) {
            Some(node) => self.fields(node, &format!("`{name}`"), known),
            None => Fields(Vec::new()),
        }
    }

    fn text(&mut self, fields: &mut Fields, name: &str) -> Option<Text> {
        let node = fields.take(name)?;
        self.single(node, &format!("`{name}`"))
    }

    fn single(&mut self, node: Node, what: &str) -> Option<Text> {
        match node.value {
            Value::Text(text) => Some(Setting::new(text, node.at)),
            other => {
                let found = other.describe();
                self.problems.push(Problem::new(node.at, format!("{what} must be a single value, this is {found}")));
                None
            }
        }
    }

    fn items(&mut self, fields: &mut Fields, name: &str) -> Vec<Node> {
        match fields.take(name) {
            Some(Node { value: Value::List(items), .. }) => items,
            Some(node) => {
                let found = node.value.describe();
                self.problems.push(Problem::new(node.at, format!("`{name}` must be a list, this is {found}")));
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn texts(&mut self, fields: &mut Fields, name: &str) -> Option<Texts> {
        let at = fields.0.iter().find(|(key, ..)| key == name).map(|(_, at, _)| at.clone())?;
        let known = self.problems.len();
        let items = self.items(fields, name);
        if items.is_empty() && self.problems.len() == known {
            self.problems
                .push(Problem::new(at.clone(), format!("`{name}` is empty")).hint("leave it out for the default"));
        }
        let texts: Vec<Text> =
            items.into_iter().filter_map(|item| self.single(item, &format!("an item of `{name}`"))).collect();
        if texts.is_empty() {
            return None;
        }
        Some(Setting::new(texts, at))
    }

    fn pairs(&mut self, fields: &mut Fields, name: &str) -> Vec<(Text, Text)> {
        let Some(node) = fields.take(name) else { return Vec::new() };
        let Value::Map(entries) = node.value else {
            let found = node.value.describe();
            self.problems.push(Problem::new(node.at, format!("`{name}` must be a mapping, this is {found}")));
            return Vec::new();
        };
        entries
            .into_iter()
            .filter_map(|(key, at, node)| {
                let value = self.single(node, &format!("`{key}`"))?;
                Some((Setting::new(key, at), value))
            })
            .collect()
    }
}
