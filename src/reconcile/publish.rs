//! From decisions to commits on the config branch: one commit each, many in one push, on top of what was read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::git::{NewCommit, Publication, PublishOutcome, RepositoryError};
use crate::ids::{AgentKey, BranchName, CommitSha, TreePath};
use crate::object::{Kind, ObjectKey};
use crate::reconcile::leader::Leading;
use crate::reconcile::source::{Asking, Loaded, Source};
use crate::reconcile::{Core, Key, Next, PassError};
use crate::rollout::{Decision, Outcome};
use crate::telemetry::event;
use crate::writeback::message::render_decision;
use crate::writeback::plan::{Planned, plan};

/// How often a lost race is run again in one pass: each time on a new tip, with every decision judged anew. A branch busier
/// than that gets its turn in the next pass.
const RACES: usize = 8;

/// How many pushes one pass makes that the server refuses: a rule against some file is found by them, and a rule against all
/// of them is not run into a thousand times.
const REFUSALS: usize = 8;

/// How long until a push that the server refused is tried again: somebody has to change a rule or a right.
const REFUSED_RETRY: SignedDuration = SignedDuration::from_secs(60);

/// How long until a decision whose pods are out of sight is looked at again.
const UNSEEN_RETRY: SignedDuration = SignedDuration::from_secs(3);

impl Core {
    /// Brings all decisions of a source to its branch, in one push where the server takes it. Where it refuses that, they are
    /// pushed one by one until the one is found that it does not take, and the others go on without it.
    pub(super) async fn publish(&self, leading: &Leading, source: &Source) -> Result<Next, PassError> {
        let Some(branch) = source.options.branch.clone() else { return Ok(Next::default()) };
        let mut next = Next::default();
        let (mut races, mut refusals, mut one_by_one) = (0, 0, false);
        let mut tried: BTreeSet<AgentKey> = BTreeSet::new();
        while races < RACES {
            if !source.outbox().has_decisions() {
                return Ok(next);
            }
            // The decisions are judged by what the branch says now.
            let asking = source.ask().await;
            let tip = match source.fetch(self.clock.now()).await {
                Ok(tip) => tip,
                Err(error) => {
                    source.outbox().delay_pending(&error.to_string());
                    return Err(error.into());
                }
            };
            let is_news = source.loaded().is_none_or(|loaded| loaded.commit != tip);
            let loaded = self.load(source, &asking, &tip).await?;
            if is_news || source.awaits_sync() {
                let keys = self.after_load(source, &loaded).into_iter();
                next.now.extend(keys.filter(|key| !matches!(key, Key::Publish(_))));
            }
            leading.check()?;
            let batch = if refusals < REFUSALS {
                batch(source.outbox().pending(&loaded.commit), one_by_one, &tried)
            } else {
                Vec::new()
            };
            if batch.is_empty() {
                self.wake_decided(source, &mut next);
                if refusals > 0 {
                    next.later.push(self.later(Key::Publish(source.options.name.clone()), REFUSED_RETRY));
                }
                return Ok(next);
            }
            let agents: Vec<AgentKey> = batch.iter().map(|decision| decision.agent.clone()).collect();
            let (commits, decisions) = self.compose(source, &loaded, batch, &mut next).await?;
            let [first, others @ ..] = &decisions[..] else {
                // None of them comes to a commit, and each says why.
                tried.extend(agents);
                continue;
            };
            match self.push(leading, source, &asking, &branch, &loaded, commits, &decisions, &mut next).await? {
                Pushed::Done => tried.extend(decisions.iter().map(|decision| decision.agent.clone())),
                Pushed::TooLate => races += 1,
                Pushed::Refused(why) if others.is_empty() => {
                    source.outbox().refuse(first, &why, self.clock.now());
                    tried.insert(first.agent.clone());
                    (refusals, one_by_one) = (refusals + 1, false);
                }
                Pushed::Refused(_) => (refusals, one_by_one) = (refusals + 1, true),
            }
        }
        next.now.push(Key::Publish(source.options.name.clone()));
        Ok(next)
    }

    /// The commits that the decisions come to on top of a commit; what does not come to one is settled here.
    async fn compose(
        &self,
        source: &Source,
        loaded: &Loaded,
        batch: Vec<Decision>,
        next: &mut Next,
    ) -> Result<(Vec<NewCommit>, Vec<Decision>), PassError> {
        let mut texts: BTreeMap<TreePath, Vec<u8>> = BTreeMap::new();
        let (mut commits, mut decisions) = (Vec::new(), Vec::new());
        // From here on a decision cannot be taken back; each one that is not pushed is let go again below.
        let mut taken = VecDeque::from(source.outbox().begin_push(batch));
        while let Some(decision) = taken.pop_front() {
            let Some(file) = file_of(loaded, &decision) else {
                let why = format!("{} is not in git any more, or not valid there", decision.agent);
                source.outbox().void(&decision, &loaded.commit, why);
                continue;
            };
            if !texts.contains_key(&file) {
                let text = match self.read(source, loaded, &file).await {
                    Ok(text) => text,
                    Err(error) => {
                        decisions.push(decision);
                        decisions.extend(taken);
                        source.outbox().delay(&decisions, &error.to_string());
                        return Err(error);
                    }
                };
                texts.insert(file.clone(), text);
            }
            let text = texts.get(&file).map(Vec::as_slice).unwrap_or_default();
            match plan(&decision, &file, text, &source.options.rules.default_namespace) {
                Planned::Edit { .. } if !self.may_go_out(&decision) => {
                    // It is not in git, so that its agent can take it back.
                    source.outbox().delay(&[decision], "the watch of Deployments does not work");
                    next.later.push(self.later(Key::Publish(source.options.name.clone()), UNSEEN_RETRY));
                }
                Planned::Edit { path, contents } => {
                    texts.insert(path.clone(), contents.clone());
                    commits.push(NewCommit {
                        message: render_decision(&decision, &self.options.cluster_name),
                        author: source.options.author.clone(),
                        at: self.clock.now(),
                        edits: BTreeMap::from([(path, Some(contents))]),
                    });
                    decisions.push(decision);
                }
                Planned::AlreadyTrue => source.outbox().settle(&decision),
                Planned::Void { why } => {
                    event::DecisionVoided {
                        agent: &decision.agent,
                        rollout: &decision.rollout,
                        outcome: decision.outcome.as_str(),
                        why: &why,
                    }
                    .emit(&self.metrics);
                    source.outbox().void(&decision, &loaded.commit, why);
                }
                Planned::Blocked(blocked) => {
                    let why = blocked.to_string();
                    event::DecisionBlocked {
                        agent: &decision.agent,
                        rollout: &decision.rollout,
                        outcome: decision.outcome.as_str(),
                        why: &why,
                    }
                    .emit(&self.metrics);
                    source.outbox().block(&decision, &loaded.commit, why);
                }
            }
        }
        Ok((commits, decisions))
    }

    /// Whether what a decision rests on may be relied upon: it may have waited for git while the pods went out of sight.
    fn may_go_out(&self, decision: &Decision) -> bool {
        let is_forward = decision.outcome == Outcome::Promoted;
        !is_forward || self.cluster.is_current(&Kind::DEPLOYMENT, &decision.agent.namespace)
    }

    /// Pushes, and says what came of it.
    #[expect(clippy::too_many_arguments, reason = "one caller, which has each of them under this name")]
    async fn push(
        &self,
        leading: &Leading,
        source: &Source,
        asking: &Asking<'_>,
        branch: &BranchName,
        loaded: &Loaded,
        commits: Vec<NewCommit>,
        decisions: &[Decision],
        next: &mut Next,
    ) -> Result<Pushed, PassError> {
        let publication = Publication { branch: branch.clone(), parent: Some(loaded.commit.clone()), commits };
        let name = &source.options.name;
        leading.check()?;
        let outcome = source.repository.publish(&publication).await.inspect_err(|error| {
            event::PublishFailed { source: name, branch, error }.emit(&self.metrics);
            match error {
                RepositoryError::Commit { .. } => source.outbox().delay(decisions, &error.to_string()),
                // Nobody knows whether the push arrived: the decisions stay in doubt until the next fetch tells.
                _ => source.outbox().doubt(decisions, &error.to_string()),
            }
        });
        match outcome? {
            PublishOutcome::Published(shas) => {
                let Some(tip) = shas.last() else { return Ok(Pushed::Done) };
                source.note_published(tip, self.clock.now());
                for (decision, commit) in decisions.iter().zip(&shas) {
                    self.tell_published(source, decision, commit);
                }
                // First the new commit is what the source says, then the decisions are done: an agent that looks in
                // between sees them still on their way, never a decision that is neither.
                self.load(source, asking, tip).await?;
                for decision in decisions {
                    source.outbox().settle(decision);
                    next.now.push(Key::Agent(decision.agent.clone()));
                }
                // Those whose decisions did not come to a commit say why.
                self.wake_decided(source, next);
                next.now.push(Key::Sync(source.options.name.clone()));
                Ok(Pushed::Done)
            }
            PublishOutcome::RemoteMoved { found } => {
                event::PublishRaced { source: name, branch, expected: &loaded.commit, found: found.as_ref() }
                    .emit(&self.metrics);
                source.outbox().delay(decisions, "somebody else pushed first");
                Ok(Pushed::TooLate)
            }
            PublishOutcome::Refused { why } => {
                event::PublishRefused { source: name, branch, why: &why }.emit(&self.metrics);
                let why = format!("{} refuses the push to {branch}: {why}", source.repository.address());
                source.outbox().delay(decisions, &why);
                Ok(Pushed::Refused(why))
            }
        }
    }

    async fn read(&self, source: &Source, loaded: &Loaded, file: &TreePath) -> Result<Vec<u8>, PassError> {
        let Some(blob) = loaded.snapshot.files.get(file) else { return Ok(Vec::new()) };
        let contents = source.repository.read(std::slice::from_ref(blob), u64::MAX).await?;
        Ok(contents.into_iter().next().flatten().map(|bytes: Arc<[u8]>| bytes.to_vec()).unwrap_or_default())
    }

    fn tell_published(&self, source: &Source, decision: &Decision, commit: &CommitSha) {
        let (source, agent, rollout) = (&source.options.name, &decision.agent, &decision.rollout);
        match decision.outcome {
            Outcome::Promoted => event::PromotionPublished { source, agent, rollout, commit }.emit(&self.metrics),
            Outcome::RolledBack(_) => event::RollbackPublished { source, agent, rollout, commit }.emit(&self.metrics),
        }
        self.note_commit(decision, commit);
    }

    /// The agents with decisions show what these wait for.
    fn wake_decided(&self, source: &Source, next: &mut Next) {
        next.now.extend(source.outbox().decided_agents().into_iter().map(Key::Agent));
    }
}

/// What came of a push.
enum Pushed {
    Done,
    /// Somebody else was faster, and everything is to be judged anew.
    TooLate,
    /// The server does not take it, in these words.
    Refused(String),
}

/// What is pushed next: all that the server has not refused alone, else one that this pass has not tried yet; of those that
/// were refused before, the one that was so the longest ago.
fn batch(pending: Vec<(Decision, Option<Timestamp>)>, one_by_one: bool, tried: &BTreeSet<AgentKey>) -> Vec<Decision> {
    let untried = || pending.iter().filter(|(decision, _)| !tried.contains(&decision.agent));
    let together: Vec<Decision> =
        untried().filter(|(_, refused_at)| refused_at.is_none()).map(|(decision, _)| decision.clone()).collect();
    if !one_by_one && !together.is_empty() {
        return together;
    }
    untried().min_by_key(|(_, refused_at)| *refused_at).map(|(decision, _)| decision.clone()).into_iter().collect()
}

fn file_of(loaded: &Loaded, decision: &Decision) -> Option<TreePath> {
    loaded.desired.objects.get(&ObjectKey::agent(&decision.agent)).map(|located| located.origin.file.clone())
}
