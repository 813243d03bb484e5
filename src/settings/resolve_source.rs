//! The sources: those of the file, or the one that the flags describe, and whether they fit together.

use std::time::Duration;

use crate::git::{Author, Revision};
use crate::ids::{BranchName, ClusterName, SourceName, TreePath};
use crate::manifest::{KindRule, Namespaces};
use crate::settings::check::{
    Invalid, parse_at_least, parse_branch, parse_commit, parse_email, parse_folder, parse_kind_rule, parse_label,
    parse_source_name, parse_tag, parse_variable_name, parse_words,
};
use crate::settings::credentials::{CredentialFields, resolve_access};
use crate::settings::effective::{SourceSettings, StatusBranch, WebhookSecret};
use crate::settings::file::{FileSource, FileWebhook, SourceFields, Text, Texts};
use crate::settings::origin::{Origin, Setting, stronger};
use crate::settings::problem::Problem;
use crate::settings::repo::RepoAddress;
use crate::settings::resolve::Resolver;

/// The name of the source that flags describe.
pub(crate) const FLAG_SOURCE: &str = "default";
/// How often a repository is asked when nothing is said: what Flux and Argo CD users are used to.
pub(crate) const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Asking more often than this is a load on a git host that a webhook or a restart serves better.
const LEAST_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The group that Serin rolls out.
const OMNIA_GROUP: &str = "omnia.altairalabs.ai";

/// What flags and variables say about sources.
#[derive(Debug)]
pub(crate) struct SourceFlags {
    pub(crate) repo: Option<Text>,
    pub(crate) branch: Option<Text>,
    pub(crate) tag: Option<Text>,
    pub(crate) commit: Option<Text>,
    pub(crate) path: Option<Text>,
    pub(crate) default_namespace: Option<Text>,
    pub(crate) kinds: Option<Texts>,
    pub(crate) namespaces: Option<Texts>,
    pub(crate) webhook_file: Option<Text>,
    pub(crate) webhook_env: Option<Text>,
    pub(crate) poll_interval: Option<Text>,
    pub(crate) author_name: Option<Text>,
    pub(crate) author_email: Option<Text>,
    pub(crate) credentials: CredentialFields,
}

/// The sources, each with where it was given.
pub(crate) fn resolve_sources(
    resolver: &mut Resolver<'_>,
    flags: SourceFlags,
    mut file: Vec<FileSource>,
    defaults: &SourceFields,
    cluster: &ClusterName,
) -> Vec<Setting<SourceSettings>> {
    if let [_, _, ..] = file[..] {
        let own = [&flags.repo, &flags.branch, &flags.tag, &flags.commit, &flags.path];
        let own = own.into_iter().chain([&flags.webhook_file, &flags.webhook_env]);
        for flag in own.flatten().chain(flags.credentials.secrets()) {
            let message =
                format!("{} cannot tell which of the {} sources of the file it is about", flag.origin, file.len());
            resolver.problems.push(Problem::new(flag.origin.clone(), message).hint("say it in the file"));
        }
    }
    if file.is_empty() {
        let Some(repo) = &flags.repo else {
            resolver.problems.push(
                Problem::new(Origin::Default, "there is no repository to follow")
                    .hint("say --repo, or --config with a file that has `sources`"),
            );
            return Vec::new();
        };
        let at = repo.origin.clone();
        file.push(FileSource {
            name: Some(Setting::new(FLAG_SOURCE.to_owned(), Origin::Default)),
            at,
            repo: None,
            branch: None,
            tag: None,
            commit: None,
            path: None,
            webhook: FileWebhook::default(),
            adopt_from: None,
            fields: SourceFields::default(),
        });
    }
    let sources = file.into_iter().enumerate();
    sources.filter_map(|(i, source)| resolve_source(resolver, i, source, &flags, defaults, cluster)).collect()
}

fn resolve_source(
    resolver: &mut Resolver<'_>,
    index: usize,
    source: FileSource,
    flags: &SourceFlags,
    defaults: &SourceFields,
    cluster: &ClusterName,
) -> Option<Setting<SourceSettings>> {
    let FileSource { at, name, repo, branch, tag, commit, path, webhook, adopt_from, mut fields } = source;
    let in_source = |field: &str| format!("sources[{index}].{field}");
    // Flag or variable, then the source itself, then the file's defaults.
    let pick = |flag: &Option<Text>, own: Option<Text>, default: &Option<Text>| {
        stronger(flag.clone(), own).or_else(|| default.clone())
    };
    let required = |resolver: &mut Resolver<'_>, given: &Option<Text>, field: &str| {
        if given.is_none() {
            resolver.problems.push(Problem::new(at.clone(), format!("a source needs `{field}`")));
        }
    };
    required(resolver, &name, "name");
    let name = resolver.parse(&in_source("name"), name, parse_source_name);
    let in_file = repo.as_ref().map(|repo| RepoAddress::parse(&repo.value, resolver.base(&repo.origin)).ok());
    let repo = stronger(flags.repo.clone(), repo);
    required(resolver, &repo, "repo");
    let repo_at = repo.as_ref().map(|repo| repo.origin.clone());
    let base = repo.as_ref().map(|repo| resolver.base(&repo.origin).to_path_buf()).unwrap_or_default();
    let repo = resolver.parse(&in_source("repo"), repo, |text| {
        RepoAddress::parse(text, &base).map_err(|error| Invalid {
            why: format!("this is no address of a repository: {}", error.why),
            hint: error.hint.map(str::to_owned),
        })
    });
    let revision = resolve_revision(
        resolver,
        index,
        stronger(flags.branch.clone(), branch),
        stronger(flags.tag.clone(), tag),
        stronger(flags.commit.clone(), commit),
    );
    let path = stronger(flags.path.clone(), path);
    let path = resolver.parse(&in_source("path"), path, parse_folder).unwrap_or_else(|| TreePath::new(""));
    let namespace = pick(&flags.default_namespace, fields.default_namespace, &defaults.default_namespace);
    let default_namespace =
        resolver.parse(&in_source("defaultNamespace"), namespace, parse_label).unwrap_or_else(|| "default".to_owned());
    let kinds = stronger(flags.kinds.clone(), fields.kinds).or_else(|| defaults.kinds.clone());
    let kinds = resolve_list(resolver, &in_source("kinds"), kinds, parse_kind_rule).unwrap_or_else(default_kinds);
    let namespaces = stronger(flags.namespaces.clone(), fields.namespaces).or_else(|| defaults.namespaces.clone());
    let namespaces = match resolve_list(resolver, &in_source("namespaces"), namespaces, parse_label) {
        Some(names) => Namespaces::Only(names),
        None => Namespaces::Any,
    };
    let poll = pick(&flags.poll_interval, fields.poll_interval, &defaults.poll_interval);
    let poll_interval = resolver
        .parse(&in_source("pollInterval"), poll, |text| parse_at_least(text, LEAST_POLL_INTERVAL))
        .unwrap_or(DEFAULT_POLL_INTERVAL);
    let author_name = pick(&flags.author_name, fields.author_name, &defaults.author_name);
    let author_email = pick(&flags.author_email, fields.author_email, &defaults.author_email);
    let author = Author {
        name: resolver.parse(&in_source("author.name"), author_name, parse_words).unwrap_or_else(|| "Serin".into()),
        // `.invalid` (RFC 2606) can never be somebody's address.
        email: resolver
            .parse(&in_source("author.email"), author_email, parse_email)
            .unwrap_or_else(|| format!("serin@{cluster}.invalid")),
    };
    let webhook = FileWebhook {
        secret_file: stronger(flags.webhook_file.clone(), webhook.secret_file),
        secret_env: stronger(flags.webhook_env.clone(), webhook.secret_env),
    };
    let webhook = resolve_webhook(resolver, index, webhook);
    let adopt_from = resolve_list(resolver, &in_source("adoptFrom"), adopt_from, parse_source_name).unwrap_or_default();
    let (repo, origin) = (repo?, repo_at.unwrap_or_else(|| at.clone()));
    let mut default_credentials = defaults.credentials.clone();
    let is_elsewhere = |in_file: &Option<RepoAddress>| in_file.as_ref().is_none_or(|file| !repo.is_on_server_of(file));
    if let Some(in_file) = in_file.filter(is_elsewhere) {
        // A flag has another server than the file, which must not see what opens the one of the file.
        if fields.credentials.opens() || default_credentials.opens() {
            let of = in_file.as_ref().map_or_else(String::new, |in_file| format!(" for {in_file}"));
            resolver.warnings.push(format!(
                "the credentials{of} in the settings file are not used for {repo}; those of flags and variables are"
            ));
        }
        let is_reached_alike = in_file.is_some_and(|in_file| in_file.kind() == repo.kind());
        fields.credentials = fields.credentials.for_elsewhere(is_reached_alike);
        default_credentials = default_credentials.for_elsewhere(true);
    }
    let access =
        resolve_access(resolver, index, &repo, &origin, &flags.credentials, fields.credentials, &default_credentials);
    let (name, revision) = (name?, revision?);
    let settings = SourceSettings {
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
    };
    Some(Setting::new(settings, at))
}

/// Branch, tag and commit are three spellings of one setting: the strongest place decides, and it may
/// name only one.
fn resolve_revision(
    resolver: &mut Resolver<'_>,
    index: usize,
    branch: Option<Text>,
    tag: Option<Text>,
    commit: Option<Text>,
) -> Option<Revision> {
    let named = [("branch", branch), ("tag", tag), ("commit", commit)];
    let named: Vec<(&str, Text)> = named.into_iter().filter_map(|(field, text)| Some((field, text?))).collect();
    let rank = named.iter().map(|(_, text)| text.origin.rank()).max();
    let mut strongest: Vec<(&str, Text)> =
        named.into_iter().filter(|(_, text)| Some(text.origin.rank()) == rank).collect();
    let Some((field, text)) = strongest.pop() else { return Some(Revision::Branch(BranchName::new("main"))) };
    if let Some((other, _)) = strongest.pop() {
        let message = format!("{other} and {field} are both given, and only one can be followed");
        resolver.problems.push(Problem::new(text.origin, message));
        return None;
    }
    let path = format!("sources[{index}].{field}");
    match field {
        "branch" => resolver.parse(&path, Some(text), parse_branch).map(Revision::Branch),
        "tag" => resolver.parse(&path, Some(text), parse_tag).map(Revision::Tag),
        _ => resolver.parse(&path, Some(text), parse_commit).map(Revision::Commit),
    }
}

/// File and variable are two places for one secret: the strongest setting decides, and it may name only one.
fn resolve_webhook(resolver: &mut Resolver<'_>, index: usize, given: FileWebhook) -> Option<WebhookSecret> {
    let at = |field: &str| format!("sources[{index}].webhook.{field}");
    match (given.secret_file, given.secret_env) {
        (Some(file), Some(variable)) if file.origin.rank() == variable.origin.rank() => {
            let message = "a secret file and a variable are both given, and only one can count";
            resolver.problems.push(Problem::new(variable.origin, message));
            None
        }
        (Some(file), variable)
            if variable.as_ref().is_none_or(|variable| variable.origin.rank() < file.origin.rank()) =>
        {
            resolver.path(&at("secretFile"), Some(file)).map(WebhookSecret::File)
        }
        (_, variable) => resolver.parse(&at("secretEnv"), variable, parse_variable_name).map(WebhookSecret::Variable),
    }
}

pub(crate) fn resolve_list<T>(
    resolver: &mut Resolver<'_>,
    path: &str,
    given: Option<Texts>,
    parse: fn(&str) -> Result<T, Invalid>,
) -> Option<Vec<T>> {
    let Setting { value, origin } = given?;
    let parsed: Vec<T> = value.into_iter().filter_map(|text| resolver.parse(path, Some(text), parse)).collect();
    resolver.origins.insert(path.to_owned(), origin);
    (!parsed.is_empty()).then_some(parsed)
}

fn default_kinds() -> Vec<KindRule> {
    vec![KindRule::Group(OMNIA_GROUP.to_owned()), KindRule::Kind { kind: "ConfigMap".to_owned(), group: String::new() }]
}

/// Keeps sources to the watched namespaces: what is applied elsewhere would be neither seen nor corrected.
pub(crate) fn keep_to_watched(
    resolver: &mut Resolver<'_>,
    sources: &mut [Setting<SourceSettings>],
    watched: &[String],
) {
    let watched_at = resolver.origins.get("kubernetes.namespaces").cloned().unwrap_or(Origin::Default);
    for (index, Setting { value: source, origin }) in sources.iter_mut().enumerate() {
        match &source.namespaces {
            Namespaces::Any => {
                source.namespaces = Namespaces::Only(watched.to_vec());
                resolver.origins.insert(format!("sources[{index}].namespaces"), watched_at.clone());
            }
            Namespaces::Only(names) => {
                for name in names.iter().filter(|name| !watched.contains(name)) {
                    let message =
                        format!("source {} may apply to the namespace {name}, which is not watched", source.name);
                    resolver
                        .problems
                        .push(Problem::new(origin.clone(), message).hint("say --watch-namespace for it too"));
                }
            }
        }
    }
}

/// Notes what is wrong, or may not be meant, about the sources taken together.
pub(crate) fn check_sources(
    resolver: &mut Resolver<'_>,
    sources: &[Setting<SourceSettings>],
    status: Option<&StatusBranch>,
) {
    for (i, Setting { value: source, origin }) in sources.iter().enumerate() {
        let mut problem = |message: String| resolver.problems.push(Problem::new(origin.clone(), message));
        for Setting { value: other, .. } in &sources[..i] {
            if other.name == source.name {
                problem(format!("there are two sources of the name {}", source.name));
            }
            let both = [(other, source), (source, other)];
            if both.iter().all(|(one, another)| one.adopt_from.contains(&another.name)) {
                problem(format!("the sources {} and {} adopt from each other", name(other), name(source)));
            }
            let is_same_revision = other.repo.is_same_repository(&source.repo) && other.revision == source.revision;
            if is_same_revision && (holds(&other.path, &source.path) || holds(&source.path, &other.path)) {
                problem(format!(
                    "the sources {} and {} hold the same files of {}",
                    name(other),
                    name(source),
                    source.repo
                ));
            }
        }
        if source.adopt_from.contains(&source.name) {
            problem(format!("the source {} adopts from itself", name(source)));
        }
        if let (Some(status), Revision::Branch(branch)) = (status, &source.revision) {
            let (status, branch) = (status.name.as_str(), branch.as_str());
            let is_inside =
                |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
            if status == branch {
                problem(format!("the status branch {status} is the branch that the source {} follows", name(source)));
            } else if is_inside(status, branch) || is_inside(branch, status) {
                problem(format!("git cannot hold the status branch {status} beside the branch {branch}"));
            }
        }
        resolver.warnings.extend(warnings(source));
    }
}

fn warnings(source: &SourceSettings) -> Vec<String> {
    let mut warnings = Vec::new();
    let followed = match &source.revision {
        Revision::Branch(_) => None,
        Revision::Tag(tag) => Some(format!("the tag {tag}")),
        Revision::Commit(commit) => Some(format!("the commit {}", commit.short())),
    };
    if let Some(followed) = followed {
        warnings.push(format!(
            "source {} follows {followed}, which cannot be written to: promotions wait at their last step, and \
             decisions are only reported",
            name(source)
        ));
    }
    if source.repo.exposes_credentials() || (source.repo.is_plain_http() && source.access.has_secret()) {
        warnings.push(format!("source {} sends its password or token unencrypted to {}", name(source), source.repo));
    }
    if !source.namespaces.permit(&source.default_namespace) {
        warnings.push(format!(
            "source {} may not apply to its default namespace {}: objects that name none are refused",
            name(source),
            source.default_namespace
        ));
    }
    warnings
}

fn name(source: &SourceSettings) -> &SourceName {
    &source.name
}

fn holds(outer: &TreePath, inner: &TreePath) -> bool {
    let (outer, inner) = (outer.as_str(), inner.as_str());
    outer.is_empty() || inner == outer || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}
