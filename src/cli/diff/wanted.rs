//! Which files are compared, and as which source: a clone or folder on this machine, or what a remote repository has.

use std::path::Path;
use std::sync::Arc;

use crate::apply::{Claimant, Claimants};
use crate::cli::diff::DiffArgs;
use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::reach::{CommandMirror, command_mirror, credentials_for, explain_repository};
use crate::git::checkout::Checkout;
use crate::git::{NetworkLimits, Repository, RepositoryError, Revision, limit_network};
use crate::ids::{BranchName, CommitSha, SourceName};
use crate::manifest::{Rules, nearest};
use crate::reconcile::serve::{schemas, source_options};
use crate::reconcile::source::{Loaded, Source};
use crate::settings::{
    Environment, LogArgs, Origin, RunArgs, Settings, SourceSettings, TypedAs, is_source_name, load,
    load_without_credentials,
};

/// What a sync would be about.
pub(super) struct Wanted {
    /// What the flags and the file say; only the source below counts of its sources.
    pub(super) settings: Settings,
    /// The source.
    pub(super) source: SourceSettings,
    /// What its files say.
    pub(super) loaded: Arc<Loaded>,
    /// Where the files are, for people.
    pub(super) place: String,
    rules: Rules,
    repository: Arc<dyn Repository>,
    _mirror: Option<CommandMirror>,
}

impl Wanted {
    /// Finds and reads the files.
    pub(super) async fn read(args: DiffArgs, typed: &TypedAs, environment: &Environment) -> Result<Self, Failure> {
        let DiffArgs { folder, revision, source: wanted_source, output: _, cluster, .. } = args.clone();
        let is_repo_flag =
            typed.text("repo", args.repo.clone()).is_some_and(|repo| matches!(repo.origin, Origin::Flag(_)));
        if folder.is_some() && is_repo_flag {
            return Err(usage("a folder and --repo are two places to compare: say one of them"));
        }
        let has_remote = args.repo.as_ref().is_some_and(|repo| !repo.is_empty()) || args.config.is_some();
        let checkout = match &folder {
            None if has_remote => None,
            folder => {
                let path = environment.current_dir.join(folder.as_deref().unwrap_or("."));
                Some((Checkout::find(&path).map_err(explain_repository)?, path))
            }
        };
        let mut run = RunArgs {
            config: args.config,
            repo: args.repo,
            path: args.path,
            grants: args.grants,
            git: args.git,
            cluster,
            // A diff writes nothing, so it needs no name for what it would write; the settings ask for one all the same.
            cluster_name: Some("diff".to_owned()),
            ..RunArgs::default()
        };
        if let Some((checkout, path)) = &checkout {
            run.repo = run.config.is_none().then(|| checkout.root().display().to_string());
            let is_folder_given = typed.text("path", run.path.clone()).is_some();
            if run.config.is_none() && !is_folder_given {
                run.path = folder_below(checkout.root(), path);
            }
        }
        if run.config.is_none() {
            run.git.credentials = credentials_for(run.repo.as_deref(), run.git.credentials, typed, environment);
        }
        let has_config = run.config.is_some();
        // For files that are here, the daemon's secrets need not be.
        let understand = if checkout.is_some() { load_without_credentials } else { load };
        let loaded = understand(run, LogArgs::default(), typed, environment).map_err(Failure::usage)?;
        let settings = loaded.settings;
        let source = choose_source(&settings, wanted_source.as_deref(), has_config)?;
        match checkout {
            Some((checkout, _)) => Self::of_checkout(settings, source, checkout, revision.as_deref()).await,
            None => Self::of_remote(settings, source, revision.as_deref()).await,
        }
    }

    async fn of_checkout(
        settings: Settings,
        source: SourceSettings,
        checkout: Checkout,
        revision: Option<&str>,
    ) -> Result<Self, Failure> {
        let checkout = match revision {
            Some(revision) => checkout.at(revision).map_err(explain_repository)?,
            None if checkout.has_working_tree() => checkout,
            None => return Err(usage("this is a bare repository: say which of its commits with --revision")),
        };
        let at = match (revision, checkout.head()) {
            (Some(revision), Some(commit)) if !commit.as_str().starts_with(revision) => {
                format!("{revision} ({})", commit.short())
            }
            (Some(_), Some(commit)) => commit.short().to_owned(),
            _ => "the working tree".to_owned(),
        };
        let place = format!("{at} of {}", checkout.address());
        let repository: Arc<dyn Repository> = Arc::new(checkout);
        let commit = repository.fetch().await.map_err(explain_repository)?;
        Self::load(settings, source, repository, &commit, place, None).await
    }

    async fn of_remote(
        settings: Settings,
        mut source: SourceSettings,
        revision: Option<&str>,
    ) -> Result<Self, Failure> {
        limit_network(NetworkLimits { silence: settings.git_timeout, ..NetworkLimits::default() });
        if let Some(revision) = revision {
            source.revision = named(revision);
        }
        let (mirror, commit) = match fetch(&settings, &source).await {
            // What is no branch may be a tag.
            Err(RepositoryError::NotFound { .. }) if revision.is_some_and(|text| named(text) == source.revision) => {
                let text = revision.unwrap_or_default().to_owned();
                let branch_or_tag = |error| match error {
                    RepositoryError::NotFound { address, .. } => {
                        let what = format!("a branch, tag or commit {text}");
                        explain_repository(RepositoryError::NotFound { what, address })
                    }
                    error => explain_repository(error),
                };
                source.revision = Revision::Tag(text.clone());
                fetch(&settings, &source).await.map_err(branch_or_tag)?
            }
            outcome => outcome.map_err(explain_repository)?,
        };
        let place = format!("{} of {}", commit.short(), mirror.mirror.address());
        let repository: Arc<dyn Repository> = mirror.mirror.clone();
        Self::load(settings, source, repository, &commit, place, Some(mirror)).await
    }

    async fn load(
        settings: Settings,
        source: SourceSettings,
        repository: Arc<dyn Repository>,
        commit: &CommitSha,
        place: String,
        mirror: Option<CommandMirror>,
    ) -> Result<Self, Failure> {
        let options = source_options(&source, &settings);
        let rules = options.rules.clone();
        let reader = Source::new(options, Arc::clone(&repository), schemas());
        let loaded = reader.load(commit).await.map_err(explain_repository)?;
        let place = match source.path.as_str() {
            "" => place,
            folder => format!("{folder} in {place}"),
        };
        Ok(Self { settings, source, loaded, place, rules, repository, _mirror: mirror })
    }

    /// Who may own an object: of this source alone is known what it holds.
    pub(super) fn claimants(&self) -> Claimants<'_> {
        Claimants(vec![Claimant {
            source: &self.source.name,
            adopts_from: &self.source.adopt_from,
            rules: &self.rules,
            desired: Some(&self.loaded.desired),
            was_asked: true,
            is_behind: false,
        }])
    }

    /// The names of the other sources of the settings; `None`: there are none.
    pub(super) fn others(&self) -> Option<String> {
        let others = self.settings.sources.iter().map(|other| other.name.as_str());
        // Without a settings file there is one source, whatever it is called.
        let others: Vec<&str> = others.filter(|name| *name != self.source.name.as_str()).collect();
        (self.settings.sources.len() > 1).then(|| others.join(", "))
    }

    /// Whether the files are of a commit that has `commit` behind it.
    pub(super) async fn contains(&self, commit: &CommitSha) -> bool {
        self.repository.contains(&self.loaded.commit, commit).await.unwrap_or(false)
    }
}

async fn fetch(settings: &Settings, source: &SourceSettings) -> Result<(CommandMirror, CommitSha), RepositoryError> {
    let mirror = command_mirror(source, &settings.mirror_dir)?;
    let commit = mirror.mirror.fetch().await?;
    Ok((mirror, commit))
}

/// What `--revision` names at a remote: a commit in full, or else a branch.
fn named(revision: &str) -> Revision {
    let is_commit = revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit {
        Revision::Commit(CommitSha::new(revision.to_ascii_lowercase()))
    } else {
        Revision::Branch(BranchName::new(revision))
    }
}

/// The folder `path` by its place in the clone; `None`: it is the top.
fn folder_below(root: &Path, path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let below = path.strip_prefix(root).ok()?.to_str()?;
    (!below.is_empty()).then(|| below.to_owned())
}

/// The source that is meant: without a settings file, the one of the flags under any name.
fn choose_source(settings: &Settings, wanted: Option<&str>, has_config: bool) -> Result<SourceSettings, Failure> {
    let names = || settings.sources.iter().map(|source| source.name.as_str());
    match (wanted, &settings.sources[..]) {
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let names: Vec<&str> = names().collect();
            Err(usage(&format!("there are several sources: say --source with one of {}", names.join(", "))))
        }
        (Some(name), [only]) if !has_config => {
            if !is_source_name(name) {
                return Err(usage(&format!("--source: {name:?} is no name of a source")));
            }
            Ok(SourceSettings { name: SourceName::new(name), ..only.clone() })
        }
        (Some(name), sources) => sources.iter().find(|source| source.name.as_str() == name).cloned().ok_or_else(|| {
            let hint = nearest(name, names()).map(|near| format!("\n  hint: did you mean {near}?")).unwrap_or_default();
            usage(&format!("--source: the settings have no source {name}{hint}"))
        }),
    }
}

fn usage(message: &str) -> Failure {
    Failure::message(ExitStatus::Usage, message)
}
