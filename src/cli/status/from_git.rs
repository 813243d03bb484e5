//! The agents as the status branch tells of them, with the commits of their decisions. No cluster is needed.

use std::collections::BTreeMap;

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::print_note;
use crate::cli::reach::{CommandMirror, command_mirror, credentials_for, explain_repository};
use crate::cli::status::row::{AgentRow, row_of_status};
use crate::cli::status::view::AgentView;
use crate::cli::status::{Selection, StatusArgs};
use crate::git::checkout::Checkout;
use crate::git::{CommitInfo, NetworkLimits, Repository, RepositoryError, limit_network};
use crate::ids::{AgentKey, BranchName, CommitSha, TreePath};
use crate::manifest::nearest;
use crate::settings::{Environment, GitArgs, LogArgs, RunArgs, TypedAs, load};
use crate::writeback::status_branch::{
    AgentStatus, DocumentError, RolloutHistory, parse_history, parse_status, status_path,
};

/// Where status branches are when nothing else is said.
const FOLDER: &str = "serin/status/";
/// How many rollouts of an agent are looked at.
const ROLLOUTS: usize = 20;
/// Larger documents are none of Serin's.
const LIMIT: u64 = 4 << 20;

/// The status branch of a repository.
pub(super) struct GitStatus {
    place: Place,
    branch: BranchName,
    tip: CommitSha,
    statuses: BTreeMap<AgentKey, AgentStatus>,
    histories: Vec<(TreePath, crate::ids::BlobId)>,
}

enum Place {
    Clone(Checkout),
    Remote(CommandMirror),
}

impl Place {
    fn repository(&self) -> &dyn Repository {
        match self {
            Self::Clone(checkout) => checkout,
            Self::Remote(remote) => remote.mirror.as_ref(),
        }
    }

    async fn status_branches(&self) -> Result<BTreeMap<BranchName, CommitSha>, RepositoryError> {
        match self {
            Self::Clone(checkout) => checkout.branches(FOLDER),
            Self::Remote(remote) => remote.mirror.branches(FOLDER).await,
        }
    }

    async fn describe(&self, commit: &CommitSha) -> Option<CommitInfo> {
        match self {
            Self::Clone(checkout) => checkout.describe(commit),
            Self::Remote(remote) => remote.mirror.describe(commit).await.ok().flatten(),
        }
    }
}

impl GitStatus {
    /// Finds the branch and reads how all agents stand.
    pub(super) async fn open(args: &StatusArgs, typed: &TypedAs, environment: &Environment) -> Result<Self, Failure> {
        let repo = args.repo.clone().filter(|repo| !repo.is_empty());
        let is_named = typed.text("cluster_name", args.cluster_name.clone()).is_some();
        let wanted = typed.text("status_branch", args.status_branch.clone()).map(|given| BranchName::new(given.value));
        let repo = repo.unwrap_or_else(|| ".".to_owned());
        let credentials = credentials_for(Some(&repo), args.git.credentials.clone(), typed, environment);
        let run = RunArgs {
            repo: Some(repo),
            branch: args.branch.clone(),
            status_branch: args.status_branch.clone(),
            cluster_name: Some(args.cluster_name.clone().filter(|name| !name.is_empty()).unwrap_or("any".to_owned())),
            git: GitArgs { credentials, ..args.git.clone() },
            ..RunArgs::default()
        };
        let settings = load(run, LogArgs::default(), typed, environment).map_err(Failure::usage)?.settings;
        let Some(source) = settings.sources.first() else {
            return Err(Failure::message(ExitStatus::Usage, "there is no repository to look at: say --repo"));
        };
        let place = match source.repo.local_path() {
            Some(path) => Place::Clone(Checkout::find(path).map_err(explain_repository)?),
            None => {
                limit_network(NetworkLimits { silence: settings.git_timeout, ..NetworkLimits::default() });
                let remote = command_mirror(source, &settings.mirror_dir).map_err(explain_repository)?;
                Place::Remote(remote)
            }
        };
        let of_cluster = settings.status_branch.as_ref().map(|status| status.name.clone()).filter(|_| is_named);
        let (branch, tip) = match wanted.or(of_cluster) {
            Some(branch) => {
                let tip = place.repository().fetch_branch(&branch).await.map_err(explain_repository)?;
                match tip {
                    Some(tip) => (branch, tip),
                    None => return Err(no_branch(&place, Some(&branch)).await),
                }
            }
            None => only_branch(&place).await?,
        };
        let mut status = Self { place, branch, tip, statuses: BTreeMap::new(), histories: Vec::new() };
        status.read().await.map_err(explain_repository)?;
        Ok(status)
    }

    async fn read(&mut self) -> Result<(), RepositoryError> {
        let repository = self.place.repository();
        let snapshot = repository.snapshot(&self.tip, &TreePath::new("")).await?;
        let (mut paths, mut blobs) = (Vec::new(), Vec::new());
        let mut histories = Vec::new();
        for (path, blob) in snapshot.files.iter().map(|(path, blob)| (path.clone(), blob.clone())) {
            let parts: Vec<&str> = path.as_str().split('/').collect();
            match parts[..] {
                [_, _, "status.yaml"] => {
                    paths.push(path);
                    blobs.push(blob);
                }
                [_, _, "history", _] => histories.push((path, blob)),
                _ => {}
            }
        }
        let contents = repository.read(&blobs, LIMIT).await?;
        let mut statuses = BTreeMap::new();
        for (path, content) in paths.iter().zip(contents) {
            let status = content.as_deref().map(parse_status);
            if let Some(status) = self.usable(path, status) {
                statuses.insert(status.agent.clone(), status);
            }
        }
        self.histories = histories;
        self.statuses = statuses;
        Ok(())
    }

    /// A document, or else a note that it is left out.
    fn usable<T>(&self, path: &TreePath, parsed: Option<Result<T, DocumentError>>) -> Option<T> {
        let why = match parsed {
            Some(Ok(document)) => return Some(document),
            Some(Err(error)) => error.to_string(),
            None => "it is too large".to_owned(),
        };
        print_note(&format!("note: {path} of {} is left out: {why}", self.branch));
        None
    }

    /// All agents that are meant.
    pub(super) fn rows(&self, selection: &Selection) -> Vec<AgentRow> {
        self.statuses.values().filter(|status| selection.is_in_scope(&status.agent)).map(row_of_status).collect()
    }

    /// The one agent that is meant.
    pub(super) async fn one(&self, selection: &Selection) -> Result<Option<AgentView>, Failure> {
        let agents: Vec<&AgentKey> = self.statuses.keys().collect();
        let Some(status) = selection.one(&agents)?.and_then(|agent| self.statuses.get(agent)) else { return Ok(None) };
        let mut view = AgentView::of_branch(status);
        self.complete(&mut view).await?;
        Ok(Some(view))
    }

    /// Adds what the branch and the commits of the decisions tell.
    pub(super) async fn complete(&self, view: &mut AgentView) -> Result<(), Failure> {
        let repository = self.place.repository();
        if let Some(status) = self.statuses.get(&view.status.agent) {
            view.status.config_commit = view.status.config_commit.take().or_else(|| status.config_commit.clone());
            if let (Some(ours), Some(theirs)) = (&mut view.status.last_outcome, &status.last_outcome)
                && ours.rollout == theirs.rollout
            {
                ours.decision_commit = ours.decision_commit.take().or_else(|| theirs.decision_commit.clone());
            }
        }
        let mut histories = self.histories(&view.status.agent).await.map_err(explain_repository)?;
        histories.sort_by_key(|history| std::cmp::Reverse(history.started_at));
        view.add_histories(&histories);
        if let Some(outcome) = &view.status.last_outcome
            && let Some(decision) = view.decisions.iter_mut().find(|decision| decision.rollout == outcome.rollout)
        {
            decision.commit = decision.commit.take().or_else(|| outcome.decision_commit.clone());
        }
        // The commits are on the branch with the decisions; where that cannot be had, their ids are an answer too.
        if view.decisions.iter().any(|decision| decision.commit.is_some())
            && let Err(error) = repository.fetch().await
        {
            print_note(&format!("note: the commits of the decisions are not known: {error}"));
        }
        let mut commits = Vec::new();
        for commit in view.decisions.iter().filter_map(|decision| decision.commit.as_ref()) {
            commits.extend(self.place.describe(commit).await);
        }
        view.add_commits(&commits);
        Ok(())
    }

    async fn histories(&self, agent: &AgentKey) -> Result<Vec<RolloutHistory>, RepositoryError> {
        let folder = status_path(agent);
        let folder = folder.as_str().trim_end_matches("status.yaml");
        let of_agent = self.histories.iter().filter(|(path, _)| path.as_str().starts_with(folder));
        // Their names hold the time of their start: the last ones are the newest.
        let newest: Vec<_> = of_agent.rev().take(ROLLOUTS).cloned().collect();
        let (paths, blobs): (Vec<_>, Vec<_>) = newest.into_iter().unzip();
        let contents = self.place.repository().read(&blobs, LIMIT).await?;
        let parsed = paths
            .iter()
            .zip(&contents)
            .filter_map(|(path, content)| self.usable(path, content.as_deref().map(parse_history)));
        Ok(parsed.collect())
    }
}

async fn only_branch(place: &Place) -> Result<(BranchName, CommitSha), Failure> {
    let mut found = place.status_branches().await.map_err(explain_repository)?;
    match (found.pop_first(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some((first, _)), false) => {
            let names =
                [&first].into_iter().chain(found.keys()).filter_map(|branch| branch.as_str().strip_prefix(FOLDER));
            let names: Vec<&str> = names.collect();
            let message = format!(
                "there are observations of several clusters: say --cluster-name with one of {}",
                names.join(", ")
            );
            Err(Failure::message(ExitStatus::Usage, message))
        }
        (None, _) => Err(no_branch(place, None).await),
    }
}

async fn no_branch(place: &Place, wanted: Option<&BranchName>) -> Failure {
    let address = place.repository().address();
    let message = match wanted {
        Some(branch) => format!("the branch {branch} is not there in {address}"),
        None => format!("there is no branch {FOLDER}<cluster name> in {address}"),
    };
    let known = place.status_branches().await.unwrap_or_default();
    let near = wanted.and_then(|branch| nearest(branch.as_str(), known.keys().map(BranchName::as_str)));
    let hint = match (near, place) {
        (Some(near), _) => format!("\n  hint: did you mean {near}?"),
        (None, Place::Clone(_)) => "\n  hint: a clone has what its last `git fetch` has brought".to_owned(),
        (None, Place::Remote(_)) => String::new(),
    };
    Failure::message(ExitStatus::NotFound, format!("{message}{hint}"))
}
