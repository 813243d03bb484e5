//! One pass for one agent: its manifest, what is observed, the verdict, its effects, in this order.

use std::sync::Arc;

use jiff::SignedDuration;

use crate::apply::tracked_by;
use crate::cluster::ClusterError;
use crate::ids::AgentKey;
use crate::object::{Kind, Object, ObjectKey};
use crate::reconcile::leader::Leading;
use crate::reconcile::memory::Asked;
use crate::reconcile::outbox::Retraction;
use crate::reconcile::source::{Loaded, Source};
use crate::reconcile::sync::REFUSED_RETRY;
use crate::reconcile::{Core, Key, Next, PassError};
use crate::rollout::{Effect, GitView, ManifestStanding, Origin, Publish, Record, Verdict, World, evaluate_with};
use crate::telemetry::event;

/// How long until a name that somebody else has is looked at again: no watch tells when it is free.
const NAME_RETRY: SignedDuration = SignedDuration::from_secs(30);

impl Core {
    /// Syncs the agent's manifest, evaluates its rollout and performs what follows.
    pub(super) async fn agent(&self, leading: &Leading, agent: &AgentKey) -> Result<Next, PassError> {
        let source = self.source_of(agent).await?;
        let synced = match &source {
            Some((source, loaded)) => self.sync_agent(leading, source, loaded, agent).await?,
            None => None,
        };
        let is_synced = synced.is_some();
        // What is evaluated is what git says, and not what somebody has made of it since: that wakes the agent again.
        let live = match synced {
            Some(synced) => Some(synced),
            None => self.get(&ObjectKey::agent(agent)).await?,
        };
        // What the server refuses is tried again without a reason: no watch tells that a namespace or a right is there.
        let is_refused = !is_synced && source.as_ref().is_some_and(|(_, loaded)| loaded.has_manifest(agent));
        let retry = is_refused.then(|| self.later(Key::Agent(agent.clone()), REFUSED_RETRY));
        let Some(live) = live.filter(|live| !self.is_foreign(live)) else {
            return Ok(Next { now: Vec::new(), later: self.forget(agent).into_iter().chain(retry).collect() });
        };
        let origin = self.origin(agent, &live, source.as_ref(), is_synced).await?;
        let world = self.observe(agent, live, origin).await?;
        let is_name_taken = is_name_taken(&world);
        let mut memo = self.memos.take(agent);
        let verdict = evaluate_with(&mut memo, &world, self.clock.now());
        if verdict.report.rollout.is_some() {
            self.memos.put(agent, memo);
        }
        let source = source.as_ref().map(|(source, _)| source);
        let mut contested = Vec::new();
        if let Some(source) = source {
            // What another source was to write down about it is not its business any more.
            for other in self.sources.values().filter(|other| !Arc::ptr_eq(other, source)) {
                let (Retraction::Done | Retraction::TooLate) = other.outbox().retract(agent);
                // One that holds it too, and took it for its own when it had handed it on, is to find out.
                if other.loaded().is_some_and(|loaded| loaded.has_manifest(agent)) && other.sync_whole_next() {
                    contested.push(Key::Sync(other.options.name.clone()));
                }
            }
        }
        if verdict.decision.is_none() {
            // A decision that is no longer due is taken back before anything happens because it is not. If its push has
            // begun meanwhile, the engine must know before it answers.
            let is_known = matches!(&world.origin, Origin::Git(GitView { publish: Publish::Pushing { .. }, .. }));
            if source.is_some_and(|source| source.outbox().retract(agent) == Retraction::TooLate) && !is_known {
                return Err(PassError::Pushing(agent.clone()));
            }
        }
        let mut next = self.perform_verdict(leading, agent, &world, source, verdict).await?;
        next.later.extend(retry);
        next.now.extend(contested);
        if is_name_taken {
            next.later.push(self.later(Key::Agent(agent.clone()), NAME_RETRY));
        }
        Ok(next)
    }

    /// Whether an agent comes from a source that this Serin does not follow: then another one does, or nobody does any
    /// more. Rolling it out from here would change its spec behind its repository's back.
    pub(super) fn is_foreign(&self, live: &Object) -> bool {
        tracked_by(live).is_some() && self.owner_of(live).is_none()
    }

    /// Makes the agent what git says, and gives it back as such. `None`: it is not (held in git, refused, being deleted).
    async fn sync_agent(
        &self,
        leading: &Leading,
        source: &Source,
        loaded: &Loaded,
        agent: &AgentKey,
    ) -> Result<Option<Arc<Object>>, PassError> {
        let key = ObjectKey::agent(agent);
        let mut live = self.get(&key).await?;
        let plan = self.plan_one(source, loaded, &key, live.as_slice());
        for apply in &plan.applies {
            live = self.apply_manifest(leading, source, loaded, apply).await?;
        }
        let is_applied = loaded.has_manifest(agent)
            && plan.refused.is_empty()
            && plan.undecided.is_empty()
            && plan.terminating.is_empty();
        let Some(applied) = live.filter(|_| is_applied) else { return Ok(None) };
        let synced = self.take_back_additions(leading, source, loaded, agent, applied).await?;
        if synced.is_some() {
            // Git may say again what is there, and nothing of it was written.
            source.note_refusal(&key, None);
        }
        Ok(synced)
    }

    async fn origin(
        &self,
        agent: &AgentKey,
        live: &Object,
        source: Option<&(Arc<Source>, Arc<Loaded>)>,
        is_synced: bool,
    ) -> Result<Origin, PassError> {
        let Some((source, loaded)) = source else {
            // Its source was not looked at yet, or has just dropped it: either way it is not for a person to decide.
            return Ok(self.owner_of(live).map_or(Origin::ByHand, |source| {
                Origin::Git(GitView {
                    source: source.options.name.clone(),
                    synced: None,
                    contains: std::collections::BTreeSet::new(),
                    manifest: None,
                    standing: source
                        .loaded()
                        .filter(|loaded| !loaded.holds(agent))
                        .and_then(|loaded| loaded.why_absent())
                        .map_or(ManifestStanding::Unread, ManifestStanding::Invalid),
                    publish: source.publish_state(agent),
                })
            }));
        };
        let synced = is_synced.then(|| loaded.commit.clone());
        let mut contains = std::collections::BTreeSet::new();
        if let Some(tip) = &synced {
            let record = Record::read(live);
            for commit in record.rejected.iter().filter_map(|entry| entry.cleared_by.as_ref()) {
                if source.repository.contains(tip, commit).await? {
                    contains.insert(commit.clone());
                }
            }
        }
        Ok(Origin::Git(GitView {
            source: source.options.name.clone(),
            synced,
            contains,
            manifest: loaded.manifest(agent),
            standing: match loaded.why_invalid(agent) {
                Some(why) => ManifestStanding::Invalid(why),
                None if is_synced => ManifestStanding::Fine,
                None => match source.refusal(&ObjectKey::agent(agent)) {
                    Some(why) => ManifestStanding::Refused(why),
                    None => ManifestStanding::Fine,
                },
            },
            publish: source.publish_state(agent),
        }))
    }

    async fn perform_verdict(
        &self,
        leading: &Leading,
        agent: &AgentKey,
        world: &World,
        source: Option<&Arc<Source>>,
        verdict: Verdict,
    ) -> Result<Next, PassError> {
        let commit = match &world.origin {
            Origin::Git(git) => git.synced.as_ref(),
            Origin::ByHand => None,
        };
        let mut next = Next::default();
        let may_wait = verdict.effects.iter().any(|effect| matches!(effect, Effect::Defer(_)));
        let deferred_until = self.deferred_until(agent, may_wait);
        // What has become true is told, whatever fails after it: no later pass gives it again. But the weight moves first, and
        // does not wait for a slow Event.
        let mut events = Vec::new();
        let mut outcome = Ok(());
        for effect in &verdict.effects {
            match effect {
                Effect::Fact(fact) => self.tell(agent, fact, commit, &verdict.report),
                Effect::Event(_) => events.push(effect),
                Effect::Defer(_) if deferred_until.is_some() => {}
                effect => match self.perform_effect(leading, agent, effect).await {
                    Err(PassError::Cluster(error)) if is_refusal(&error) && workload_write(effect).is_some() => {
                        // The rest is done all the same: a template that is refused must not keep pods from following
                        // the weight, and an object that may not be deleted must not keep a decision from git.
                        next.now.extend(self.note_refused(agent, workload_write(effect), &error));
                    }
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                    Ok(()) => next.now.extend(self.note_accepted(agent, workload_write(effect))),
                },
            }
        }
        for event in events {
            let told = self.perform_effect(leading, agent, event).await;
            outcome = outcome.and(told);
        }
        outcome?;
        leading.check()?;
        next.later.extend(self.refusal_retry(agent));
        next.later.extend(deferred_until.map(|at| (Key::Agent(agent.clone()), at)));
        next.later.extend(verdict.wake_at.map(|at| (Key::Agent(agent.clone()), at)));
        if let Some(live) = self.cluster.get(&ObjectKey::agent(agent)).await? {
            // One whose manifest cannot be read is not gone from the page of its source: there people look for why.
            let page = source.or_else(|| self.owner_of(&live));
            next.later.extend(self.remember(agent, page.map(AsRef::as_ref), commit, &live, &verdict));
        }
        // Last, when nothing can fail any more: who has posted it is the one who sees to its publication.
        if let (Some(decision), Some(source)) = (&verdict.decision, source)
            && source.options.branch.is_some()
            && source.post(decision)
        {
            next.now.push(Key::Publish(source.options.name.clone()));
        }
        Ok(next)
    }

    /// Does one thing. Nothing is decided here.
    async fn perform_effect(&self, leading: &Leading, agent: &AgentKey, effect: &Effect) -> Result<(), PassError> {
        match effect {
            Effect::Apply(apply) | Effect::Defer(apply) => {
                self.cluster.as_leader(leading)?.apply(apply).await?;
            }
            Effect::Delete(key, uid) => self.cluster.as_leader(leading)?.delete(key, uid).await?,
            Effect::Patch(patch) => {
                self.cluster.as_leader(leading)?.patch(patch).await?;
            }
            // People are told if possible; a rollout does not depend on it.
            Effect::Event(record) => {
                if let Err(error) = self.cluster.as_leader(leading)?.record(record).await {
                    event::EventLost { agent, error: &error }.emit(&self.metrics);
                }
            }
            // Told by the caller, who knows what it is told with.
            Effect::Fact(_) => {}
        }
        Ok(())
    }
}

/// Whether the server has understood a write and does not take it.
fn is_refusal(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Invalid { .. } | ClusterError::Forbidden { .. })
}

/// What an effect asks about which object, if it is one of those that the agent runs as.
fn workload_write(effect: &Effect) -> Option<(ObjectKey, Asked)> {
    let write = match effect {
        Effect::Apply(apply) | Effect::Defer(apply) => (apply.object.key(), Asked::Apply),
        Effect::Delete(key, _) => (key.clone(), Asked::Delete),
        Effect::Patch(_) | Effect::Event(_) | Effect::Fact(_) => return None,
    };
    Some(write).filter(|(key, _)| key.kind != Kind::AGENT_RUNTIME)
}

/// Whether somebody else's object is there under a name that the agent uses.
fn is_name_taken(world: &World) -> bool {
    let uid = world.agent.uid();
    let is_ours = |object: &Object| uid.as_ref().is_some_and(|uid| object.is_controlled_by(uid));
    world.live.iter().any(|object| object.key().kind != Kind::AGENT_RUNTIME && !is_ours(object))
}
