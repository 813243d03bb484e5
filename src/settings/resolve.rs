//! From everything that was typed to [`Settings`]: who wins, what it means, whether it fits together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ids::ClusterName;
use crate::manifest::Namespaces;
use crate::settings::args::{GitArgs, GrantArgs, LogArgs, RunArgs, TypedAs};
use crate::settings::check::{
    Checked, parse_at_least, parse_branch, parse_cluster_name, parse_image, parse_label, parse_listen,
    parse_log_format, parse_log_level, parse_switch, parse_words, parse_workers,
};
use crate::settings::effective::{
    ClusterAccess, ImageSettings, LogFormat, LogLevel, LogSettings, Settings, StatusBranch,
};
use crate::settings::environment::Environment;
use crate::settings::file::{FileSettings, Text, Texts, parse_file};
use crate::settings::origin::{Origin, Setting, stronger};
use crate::settings::problem::{Problem, Problems};
use crate::settings::resolve_lease::{LeaseGiven, resolve_lease};
use crate::settings::resolve_source::{SourceFlags, check_sources, keep_to_watched, resolve_list, resolve_sources};

/// How long a git server may keep silent when nothing is said. Silence, not the whole call: the first fetch
/// of a large repository takes minutes and has progress all along.
pub(crate) const DEFAULT_GIT_TIMEOUT: Duration = Duration::from_secs(30);
/// One commit of observations in this time when nothing is said: a dashboard that is ten seconds old is
/// as good as live, and a rollout of an hour stays below 400 commits.
pub(crate) const DEFAULT_STATUS_INTERVAL: Duration = Duration::from_secs(10);
/// Where metrics and health are when nothing is said.
pub(crate) const DEFAULT_LISTEN: &str = "0.0.0.0:8080";
/// Agents looked at side by side when nothing is said: passes wait for the API server, not for a core.
pub(crate) const DEFAULT_WORKERS: usize = 32;

/// What is said where nothing names the cluster: commands that do without the name know the problem by it.
pub const NO_CLUSTER_NAME: &str = "this cluster has no name";

/// Settings, and what people may want to know about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Where each value came from, by its path in the settings file, such as `sources[0].repo`.
    pub origins: BTreeMap<String, Origin>,
    /// Sentences about what is allowed but may not be meant.
    pub warnings: Vec<String>,
}

/// Understands flags, variables and the file that they name.
///
/// # Errors
/// All problems at once.
pub fn load(args: RunArgs, log: LogArgs, typed: &TypedAs, environment: &Environment) -> Result<Loaded, Problems> {
    let file = read_config(&args, typed, environment)?;
    resolve(args, log, typed, environment, file)
}

/// As [`load`], for who reaches no repository: the files and variables with secrets are not looked at, since they may be only
/// where the daemon runs. The sources come without any way in.
///
/// # Errors
/// All problems at once.
pub fn load_without_credentials(
    args: RunArgs,
    log: LogArgs,
    typed: &TypedAs,
    environment: &Environment,
) -> Result<Loaded, Problems> {
    let file = read_config(&args, typed, environment)?;
    let mut resolver = Resolver::new(environment, file.as_ref().map(|(name, _)| name.as_str()));
    resolver.needs_no_credentials = true;
    resolver.resolve(args, log, typed, file)
}

/// The settings file that is named: its name and its text.
fn read_config(
    args: &RunArgs,
    typed: &TypedAs,
    environment: &Environment,
) -> Result<Option<(String, String)>, Problems> {
    let Some(config) = typed.text("config", args.config.clone()) else { return Ok(None) };
    match std::fs::read_to_string(environment.current_dir.join(&config.value)) {
        Ok(text) => Ok(Some((config.value, text))),
        Err(error) => {
            let message = format!("the settings file {:?} cannot be read: {error}", config.value);
            Err(Problems(vec![Problem::new(config.origin, message)]))
        }
    }
}

/// Understands the log flags alone, for commands that have no other settings.
///
/// # Errors
/// All problems at once.
pub fn resolve_log(log: LogArgs, typed: &TypedAs, environment: &Environment) -> Result<LogSettings, Problems> {
    let mut resolver = Resolver::new(environment, None);
    let settings = resolver.log(log, typed, None, None);
    if resolver.problems.is_empty() { Ok(settings) } else { Err(Problems::sorted(resolver.problems)) }
}

/// As [`load`], with the file already read: its name and its text.
pub(crate) fn resolve(
    args: RunArgs,
    log: LogArgs,
    typed: &TypedAs,
    environment: &Environment,
    file: Option<(String, String)>,
) -> Result<Loaded, Problems> {
    Resolver::new(environment, file.as_ref().map(|(name, _)| name.as_str())).resolve(args, log, typed, file)
}

/// What is known so far while settings are put together.
pub(crate) struct Resolver<'a> {
    environment: &'a Environment,
    /// Folder of the settings file: its relative paths start there.
    file_dir: PathBuf,
    pub(crate) problems: Vec<Problem>,
    pub(crate) origins: BTreeMap<String, Origin>,
    pub(crate) warnings: Vec<String>,
    /// No repository is reached: what opens one need not be there.
    pub(crate) needs_no_credentials: bool,
}

impl<'a> Resolver<'a> {
    fn new(environment: &'a Environment, file: Option<&str>) -> Self {
        let file_dir =
            file.map(|file| environment.current_dir.join(file)).and_then(|file| file.parent().map(Path::to_path_buf));
        Self {
            environment,
            file_dir: file_dir.unwrap_or_else(|| environment.current_dir.clone()),
            problems: Vec::new(),
            origins: BTreeMap::new(),
            warnings: Vec::new(),
            needs_no_credentials: false,
        }
    }

    fn resolve(
        mut self,
        args: RunArgs,
        log: LogArgs,
        typed: &TypedAs,
        file: Option<(String, String)>,
    ) -> Result<Loaded, Problems> {
        let file = match file {
            Some((name, text)) => parse_file(&name, &text, &mut self.problems),
            None => FileSettings::default(),
        };
        let settings = self.settings(args, log, typed, file);
        let Self { problems, origins, warnings, .. } = self;
        if problems.is_empty() { Ok(Loaded { settings, origins, warnings }) } else { Err(Problems::sorted(problems)) }
    }

    /// Parses the given text, if there is one, and notes where the value of `path` came from. A problem
    /// is noted and `None` goes on, so that all the others are found too.
    pub(crate) fn parse<T>(
        &mut self,
        path: &str,
        given: Option<Text>,
        parse: impl FnOnce(&str) -> Checked<T>,
    ) -> Option<T> {
        let Setting { value, origin } = given?;
        match parse(&value) {
            Ok(parsed) => {
                self.origins.insert(path.to_owned(), origin);
                Some(parsed)
            }
            Err(invalid) => {
                self.problems.push(Problem { at: origin, message: invalid.why, hint: invalid.hint });
                None
            }
        }
    }

    /// The folder at which a relative path of `origin` starts.
    pub(crate) fn base(&self, origin: &Origin) -> &Path {
        match origin {
            Origin::File { .. } => &self.file_dir,
            _ => &self.environment.current_dir,
        }
    }

    /// The home folder of the user.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.environment.home.as_deref()
    }

    pub(crate) fn path(&mut self, path: &str, given: Option<Text>) -> Option<PathBuf> {
        let base = given.as_ref().map(|given| self.base(&given.origin).to_path_buf())?;
        self.parse(path, given, |text| parse_words(text).map(|text| base.join(text)))
    }

    fn settings(&mut self, args: RunArgs, log: LogArgs, typed: &TypedAs, file: FileSettings) -> Settings {
        let RunArgs {
            config: _,
            print_config: _,
            repo,
            branch,
            tag,
            commit,
            path,
            grants: GrantArgs { default_namespace, allow_kind, allow_namespace },
            webhook_secret_file,
            webhook_secret_env,
            git: GitArgs { git_timeout, mirror_dir, credentials },
            poll_interval,
            author_name,
            author_email,
            status_branch,
            no_status_branch,
            status_interval,
            cluster_name,
            cluster,
            watch_namespace,
            simulate,
            lease_name,
            lease_namespace,
            no_lease,
            workers,
            facade_image,
            framework_image,
            listen,
        } = args;
        let given = |id: &str, flag: Option<String>, file: Option<Text>| stronger(typed.text(id, flag), file);
        let at_least_one = |text: &str| parse_at_least(text, Duration::from_secs(1));

        let cluster = self.cluster(
            given("simulate", simulate, file.simulate),
            given("context", cluster.context, file.context),
            given("kubeconfig", cluster.kubeconfig, file.kubeconfig),
            stronger(typed.texts("watch_namespace", watch_namespace), file.watched_namespaces),
        );
        let cluster_name = self.cluster_name(given("cluster_name", cluster_name, file.cluster_name), &cluster);
        let flags = SourceFlags {
            repo: typed.text("repo", repo),
            branch: typed.text("branch", branch),
            tag: typed.text("tag", tag),
            commit: typed.text("commit", commit),
            path: typed.text("path", path),
            default_namespace: typed.text("default_namespace", default_namespace),
            kinds: typed.texts("allow_kind", allow_kind),
            namespaces: typed.texts("allow_namespace", allow_namespace),
            webhook_file: typed.text("webhook_secret_file", webhook_secret_file),
            webhook_env: typed.text("webhook_secret_env", webhook_secret_env),
            poll_interval: typed.text("poll_interval", poll_interval),
            author_name: typed.text("author_name", author_name),
            author_email: typed.text("author_email", author_email),
            credentials: credentials.fields(typed),
        };
        let mut sources = resolve_sources(self, flags, file.sources, &file.defaults, &cluster_name);
        if let ClusterAccess::Kubernetes { namespaces: Namespaces::Only(watched), .. } = &cluster {
            keep_to_watched(self, &mut sources, watched);
        }
        let status_branch = self.status_branch(
            typed.text("no_status_branch", no_status_branch),
            file.status_enabled,
            given("status_branch", status_branch, file.status_branch),
            given("status_interval", status_interval, file.status_interval),
            &cluster_name,
        );
        check_sources(self, &sources, status_branch.as_ref());
        let lease = resolve_lease(
            self,
            LeaseGiven {
                off: typed.text("no_lease", no_lease),
                enabled: file.lease_enabled,
                name: given("lease_name", lease_name, file.lease_name),
                namespace: given("lease_namespace", lease_namespace, file.lease_namespace),
            },
            &cluster,
        );
        let listen = self.parse("listen", given("listen", listen, file.listen), parse_listen);
        if listen == Some(None) {
            let hooked = sources.iter().filter(|source| source.value.webhook.is_some());
            let unheard =
                hooked.map(|source| format!("the webhook of source {} is not listened for", source.value.name));
            self.warnings.extend(unheard);
        }
        Settings {
            cluster_name,
            cluster,
            sources: sources.into_iter().map(|source| source.value).collect(),
            mirror_dir: self
                .path("mirrorDir", given("mirror_dir", mirror_dir, file.mirror_dir))
                .unwrap_or_else(|| self.environment.default_mirror_dir()),
            git_timeout: self
                .parse("gitTimeout", given("git_timeout", git_timeout, file.git_timeout), at_least_one)
                .unwrap_or(DEFAULT_GIT_TIMEOUT),
            status_branch,
            listen: listen.unwrap_or_else(|| DEFAULT_LISTEN.parse().ok()),
            log: self.log(log, typed, file.log_format, file.log_level),
            images: self.images(
                given("facade_image", facade_image, file.facade_image),
                typed.texts("framework_image", framework_image),
                file.framework_images,
            ),
            workers: self
                .parse("workers", given("workers", workers, file.workers), parse_workers)
                .unwrap_or(DEFAULT_WORKERS),
            lease,
        }
    }

    fn cluster(
        &mut self,
        simulate: Option<Text>,
        context: Option<Text>,
        kubeconfig: Option<Text>,
        namespaces: Option<Texts>,
    ) -> ClusterAccess {
        let simulate_at = simulate.as_ref().map(|simulate| simulate.origin.clone());
        if self.parse("simulate", simulate, parse_switch) != Some(true) {
            return ClusterAccess::Kubernetes {
                context: self.parse("kubernetes.context", context, parse_words),
                kubeconfig: self.path("kubernetes.kubeconfig", kubeconfig),
                namespaces: match resolve_list(self, "kubernetes.namespaces", namespaces, parse_label) {
                    Some(names) => Namespaces::Only(names),
                    None => Namespaces::Any,
                },
            };
        }
        let others = [context.map(|given| given.origin), kubeconfig.map(|given| given.origin)];
        for other in others.into_iter().chain([namespaces.map(|given| given.origin)]).flatten() {
            // A variable or the file may serve several commands; two flags of one command contradict.
            let message = format!("{other} is about a real cluster, and the simulated one is asked for");
            match (&other, &simulate_at) {
                (Origin::Flag(_), Some(Origin::Flag(_))) => {
                    self.problems.push(Problem::new(other, message));
                }
                _ => self.warnings.push(message),
            }
        }
        ClusterAccess::Simulated
    }

    fn cluster_name(&mut self, given: Option<Text>, cluster: &ClusterAccess) -> ClusterName {
        let is_given = given.is_some();
        let name = self.parse("clusterName", given, parse_cluster_name);
        if !is_given && *cluster != ClusterAccess::Simulated {
            self.problems.push(
                Problem::new(Origin::Default, NO_CLUSTER_NAME).hint(
                    "say --cluster-name; it names the status branch, so each cluster that shares a repository needs its own",
                ),
            );
        }
        name.unwrap_or_else(|| ClusterName::new("simulated"))
    }

    fn status_branch(
        &mut self,
        off: Option<Text>,
        enabled: Option<Text>,
        name: Option<Text>,
        interval: Option<Text>,
        cluster: &ClusterName,
    ) -> Option<StatusBranch> {
        let path = "statusBranch.enabled";
        let enabled = match off {
            Some(off) => self.parse(path, Some(off), |text| parse_switch(text).map(|is_off| !is_off)),
            None => self.parse(path, enabled, parse_switch),
        };
        if enabled == Some(false) {
            // A variable or the file may be overruled; two flags of one command contradict.
            if let Some(name) = name.filter(|name| matches!(name.origin, Origin::Flag(_)))
                && matches!(self.origins.get(path), Some(Origin::Flag(_)))
            {
                let message = "--status-branch contradicts --no-status-branch";
                self.problems.push(Problem::new(name.origin, message));
            }
            return None;
        }
        let name_given = name.is_some();
        let name = self.parse("statusBranch.name", name, parse_branch);
        let interval =
            self.parse("statusBranch.interval", interval, |text| parse_at_least(text, Duration::from_secs(1)));
        if name_given && name.is_none() {
            return None;
        }
        Some(StatusBranch {
            name: name.unwrap_or_else(|| crate::ids::BranchName::new(format!("serin/status/{cluster}"))),
            interval: interval.unwrap_or(DEFAULT_STATUS_INTERVAL),
        })
    }

    fn log(&mut self, log: LogArgs, typed: &TypedAs, format: Option<Text>, level: Option<Text>) -> LogSettings {
        let LogArgs { log_format, log_level } = log;
        let rust_log = self.environment.rust_log.clone();
        // As a variable it stands above the file, and below our own variable.
        let rust_log = rust_log.map(|text| Setting::new(text, Origin::Variable("RUST_LOG".into())));
        let level = stronger(stronger(typed.text("log_level", log_level), rust_log), level);
        LogSettings {
            format: self
                .parse("log.format", stronger(typed.text("log_format", log_format), format), parse_log_format)
                .unwrap_or(LogFormat::Auto),
            level: self.parse("log.level", level, parse_log_level).unwrap_or(LogLevel::Info),
        }
    }

    fn images(
        &mut self,
        facade: Option<Text>,
        flags: Option<Setting<Vec<Text>>>,
        file: Vec<(Text, Text)>,
    ) -> ImageSettings {
        let mut images =
            ImageSettings { facade: self.parse("images.facade", facade, parse_image), frameworks: BTreeMap::new() };
        // Flags and variables add to the file's images and replace those of the same type.
        let mut given = file;
        for flag in flags.map(|flags| flags.value).unwrap_or_default() {
            match flag.value.split_once('=') {
                Some((framework, image)) if !framework.trim().is_empty() => {
                    let at = || flag.origin.clone();
                    given.push((Setting::new(framework.trim().into(), at()), Setting::new(image.trim().into(), at())));
                }
                _ => {
                    let message = format!("{:?} is not of the form type=image", flag.value);
                    self.problems
                        .push(Problem::new(flag.origin, message).hint("for example langchain=registry/runtime:1.2"));
                }
            }
        }
        for (framework, image) in given {
            let path = format!("images.frameworks.{}", framework.value);
            if let Some(image) = self.parse(&path, Some(image), parse_image) {
                images.frameworks.insert(framework.value, image);
            }
        }
        images
    }
}
