//! `--print-config`: the settings as a settings file, with where each value came from.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::SignedDuration;

use crate::api::duration::render_duration;
use crate::git::Revision;
use crate::manifest::Namespaces;
use crate::settings::credentials::render_access;
use crate::settings::effective::{
    ClusterAccess, LeaseSettings, LogFormat, LogLevel, Settings, SourceSettings, WebhookSecret,
};
use crate::settings::origin::Origin;
use crate::settings::resolve::Loaded;

/// Renders settings as a file that, given back as `--config`, means the same. Secrets are shown as `***`,
/// which that file is then refused for.
pub fn render_config(loaded: &Loaded) -> String {
    let Loaded { settings, origins, warnings } = loaded;
    let Settings {
        cluster_name,
        cluster,
        sources,
        mirror_dir,
        git_timeout,
        status_branch,
        listen,
        log,
        images,
        workers,
        lease,
    } = settings;
    let mut page = Page { text: String::new(), origin: &|path| origins.get(path).cloned().unwrap_or(Origin::Default) };
    for warning in warnings {
        page.line(0, &format!("# warning: {warning}"));
    }
    page.field(0, "clusterName", "clusterName", &scalar(cluster_name.as_str()));
    match cluster {
        ClusterAccess::Simulated => page.field(0, "simulate", "simulate", "true"),
        ClusterAccess::Kubernetes { kubeconfig, context, namespaces } => {
            page.field(0, "simulate", "simulate", "false");
            if kubeconfig.is_some() || context.is_some() || *namespaces != Namespaces::Any {
                page.line(0, "kubernetes:");
            }
            if let Some(kubeconfig) = kubeconfig {
                page.field(1, "kubeconfig", "kubernetes.kubeconfig", &scalar(&kubeconfig.to_string_lossy()));
            }
            if let Some(context) = context {
                page.field(1, "context", "kubernetes.context", &scalar(context));
            }
            if let Namespaces::Only(names) = namespaces {
                page.list(1, "namespaces", "kubernetes.namespaces", names.iter().cloned());
            }
        }
    }
    page.line(0, "sources:");
    for (i, source) in sources.iter().enumerate() {
        page.source(i, source);
    }
    page.field(0, "mirrorDir", "mirrorDir", &scalar(&mirror_dir.to_string_lossy()));
    page.field(0, "gitTimeout", "gitTimeout", &duration(*git_timeout));
    page.line(0, "statusBranch:");
    page.field(1, "enabled", "statusBranch.enabled", if status_branch.is_some() { "true" } else { "false" });
    if let Some(status) = status_branch {
        page.field(1, "name", "statusBranch.name", &scalar(status.name.as_str()));
        page.field(1, "interval", "statusBranch.interval", &duration(status.interval));
    }
    let listen = listen.map_or_else(|| "none".to_owned(), |listen| listen.to_string());
    page.field(0, "listen", "listen", &scalar(&listen));
    page.line(0, "log:");
    page.field(1, "format", "log.format", log_format(log.format));
    page.field(1, "level", "log.level", &scalar(log_level(&log.level)));
    if images.facade.is_some() || !images.frameworks.is_empty() {
        page.line(0, "images:");
    }
    if let Some(facade) = &images.facade {
        page.field(1, "facade", "images.facade", &scalar(facade));
    }
    if !images.frameworks.is_empty() {
        page.line(1, "frameworks:");
    }
    for (framework, image) in &images.frameworks {
        page.field(2, &scalar(framework), &format!("images.frameworks.{framework}"), &scalar(image));
    }
    page.field(0, "workers", "workers", &workers.to_string());
    if *cluster != ClusterAccess::Simulated {
        page.line(0, "lease:");
        page.field(1, "enabled", "lease.enabled", if lease.is_some() { "true" } else { "false" });
    }
    if let Some(LeaseSettings { name, namespace }) = lease {
        page.field(1, "name", "lease.name", &scalar(name));
        match namespace {
            Some(namespace) => page.field(1, "namespace", "lease.namespace", &scalar(namespace)),
            None => page.line(1, "# namespace: that of the pod, or of the kubeconfig's context"),
        }
    }
    page.text
}

struct Page<'a> {
    text: String,
    origin: &'a dyn Fn(&str) -> Origin,
}

impl Page<'_> {
    fn line(&mut self, depth: usize, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", depth * 2);
    }

    fn field(&mut self, depth: usize, key: &str, path: &str, value: &str) {
        let origin = (self.origin)(path);
        self.line(depth, &format!("{key}: {value} # {origin}"));
    }

    fn list(&mut self, depth: usize, key: &str, path: &str, items: impl Iterator<Item = String>) {
        let items: Vec<String> = items.map(|item| scalar(&item)).collect();
        self.field(depth, key, path, &format!("[{}]", items.join(", ")));
    }

    fn source(&mut self, index: usize, source: &SourceSettings) {
        let SourceSettings {
            name,
            repo,
            access,
            revision,
            path,
            default_namespace,
            kinds,
            namespaces,
            poll_interval,
            author,
            webhook,
            adopt_from,
        } = source;
        let at = |field: &str| format!("sources[{index}].{field}");
        self.field(0, "- name", &at("name"), &scalar(name.as_str()));
        self.field(1, "repo", &at("repo"), &scalar(&repo.redacted()));
        let credentials = render_access(access);
        if !credentials.is_empty() {
            self.line(1, "credentials:");
        }
        for (field, value) in credentials {
            self.field(2, field, &at(&format!("credentials.{field}")), &scalar(&value));
        }
        match revision {
            Revision::Branch(branch) => self.field(1, "branch", &at("branch"), &scalar(branch.as_str())),
            Revision::Tag(tag) => self.field(1, "tag", &at("tag"), &scalar(tag)),
            Revision::Commit(commit) => self.field(1, "commit", &at("commit"), &scalar(commit.as_str())),
        }
        self.field(1, "path", &at("path"), &scalar(path.as_str()));
        self.field(1, "defaultNamespace", &at("defaultNamespace"), &scalar(default_namespace));
        self.list(1, "kinds", &at("kinds"), kinds.iter().map(ToString::to_string));
        match namespaces {
            Namespaces::Any => self.line(1, "# namespaces: any"),
            Namespaces::Only(names) => self.list(1, "namespaces", &at("namespaces"), names.iter().cloned()),
        }
        self.field(1, "pollInterval", &at("pollInterval"), &duration(*poll_interval));
        self.line(1, "author:");
        self.field(2, "name", &at("author.name"), &scalar(&author.name));
        self.field(2, "email", &at("author.email"), &scalar(&author.email));
        if let Some(secret) = webhook {
            let (field, value) = match secret {
                WebhookSecret::File(file) => ("secretFile", file.to_string_lossy().into_owned()),
                WebhookSecret::Variable(variable) => ("secretEnv", variable.clone()),
            };
            self.line(1, "webhook:");
            self.field(2, field, &at(&format!("webhook.{field}")), &scalar(&value));
        }
        if !adopt_from.is_empty() {
            self.list(1, "adoptFrom", &at("adoptFrom"), adopt_from.iter().map(ToString::to_string));
        }
    }
}

/// A YAML scalar: plain where no reader could take it for anything but this text, else in JSON's quotes,
/// which are YAML's too.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./_-@+".contains(&byte))
        || text.split_once("://").is_some_and(|(scheme, rest)| {
            scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./_-@+:".contains(&byte))
                && !rest.ends_with(':')
        });
    let means_else = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    if is_word && !means_else.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

fn duration(duration: Duration) -> String {
    // Settings come from texts of at most 290 years.
    render_duration(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}

fn log_format(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Auto => "auto",
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    }
}

fn log_level(level: &LogLevel) -> &str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
        LogLevel::Directives(directives) => directives,
    }
}
