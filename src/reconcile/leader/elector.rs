//! Reads and writes the Lease, and says when that changes who leads. What to do is for `decide` to say.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::decide::{ATTEMPT, Moment, Move, RETRY, Seen, given_back, held, judge, next_renewal, time_left};
use super::identity::Identity;
use super::record::Record;
use super::term::{Leading, Term, Timer};
use crate::chain::Chain;
use crate::clock::Clock;
use crate::cluster::{Apply, Cluster, ClusterError, Expect, FieldManager, MergePatch, Part};
use crate::object::{Object, ObjectKey};
use crate::telemetry::{Metrics, event};
use crate::web::Check;

/// How long until a look after somebody else wrote the Lease in between.
const AFTER_CONFLICT: Duration = Duration::from_millis(50);

/// How long giving the Lease back may take: the others can wait it out.
const GIVE_BACK_LIMIT: Duration = Duration::from_secs(2);

/// What changed about who leads.
pub enum Change {
    /// This process leads from now on.
    Elected(Leading),
    /// It does not any more.
    Lost,
}

/// Runs for a Lease.
pub struct Elector {
    cluster: Arc<dyn Cluster>,
    lease: ObjectKey,
    me: Identity,
    timer: Timer,
    metrics: Metrics,
    check: Check,
    seen: Option<Seen>,
    /// The Lease as the last request returned it, while nothing says that it has changed.
    current: Option<Arc<Object>>,
    term: Option<Arc<Term>>,
    pause: Duration,
    /// What was told last, so that it is told once.
    told: String,
}

/// How one attempt ended.
enum Attempt {
    /// The Lease is ours; sent at this moment.
    Ours(Moment),
    /// It is somebody else's; look again after this time.
    Theirs(String, Duration),
    /// Somebody wrote it between our look and our write.
    Raced,
}

impl Elector {
    /// One that has not looked yet. `check` is told what it finds.
    pub fn new(
        cluster: Arc<dyn Cluster>,
        lease: ObjectKey,
        me: Identity,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
        check: Check,
    ) -> Self {
        Self {
            cluster,
            lease,
            me,
            timer: Timer::starting(clock),
            metrics,
            check,
            seen: None,
            current: None,
            term: None,
            pause: Duration::ZERO,
            told: String::new(),
        }
    }

    /// Waits until this process leads, or does not any more. Renews the Lease meanwhile.
    pub async fn next_change(&mut self) -> Change {
        loop {
            tokio::time::sleep(std::mem::take(&mut self.pause)).await;
            let limit = self.time_left().map_or(ATTEMPT, |left| left.min(ATTEMPT));
            let outcome = match tokio::time::timeout(limit, self.attempt()).await {
                Ok(outcome) => outcome,
                Err(_) => Err(ClusterError::Unavailable { why: format!("no answer within {limit:?}") }),
            };
            let change = match outcome {
                Ok(Attempt::Ours(sent)) => self.is_ours(sent),
                Ok(Attempt::Theirs(holder, wait)) => self.is_theirs(&holder, wait),
                Ok(Attempt::Raced) => {
                    self.current = None;
                    self.pause = AFTER_CONFLICT;
                    None
                }
                Err(error) => self.failed(&error),
            };
            if let Some(change) = change {
                return change;
            }
        }
    }

    /// Gives the Lease back, if it is ours: the others need not wait. Where that fails, they wait it out.
    pub async fn give_back(mut self) {
        let Some(term) = self.term.take() else { return };
        term.end();
        self.metrics.sync.set_leader(false);
        let outcome = match tokio::time::timeout(GIVE_BACK_LIMIT, self.write_back()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ClusterError::Unavailable { why: format!("no answer within {GIVE_BACK_LIMIT:?}") }),
        };
        match outcome {
            Ok(()) => event::LeaseGivenBack { lease: &self.lease }.emit(&self.metrics),
            Err(error) => {
                let error = Chain(&error).to_string();
                event::LeaseNotGivenBack { lease: &self.lease, error: &error }.emit(&self.metrics);
            }
        }
    }

    async fn write_back(&self) -> Result<(), ClusterError> {
        loop {
            // What is known may be older than a renewal whose answer nobody waited for.
            let Some(live) = self.cluster.get(&self.lease).await? else { return Ok(()) };
            let record = Record::read(&live);
            if record.holder != self.me.name() {
                return Ok(());
            }
            match self.patch(&live, &given_back(&record, self.timer.now())).await {
                Err(ClusterError::Conflict { .. }) => tokio::time::sleep(AFTER_CONFLICT).await,
                outcome => return outcome.map(|_| ()),
            }
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, ClusterError> {
        let live = match self.current.take().filter(|_| self.term.is_some()) {
            Some(live) => Some(live),
            None => self.cluster.get(&self.lease).await?,
        };
        let now = self.timer.now();
        let is_there = live.is_some();
        self.seen = Seen::after(self.seen.take(), live.as_deref().map(Record::read), now);
        let before = self.seen.as_ref().map(|seen| &seen.record);
        let record = held(self.me.name(), before, now);
        let written = match (judge(self.me.name(), self.seen.as_ref(), now), live) {
            (Move::Wait(wait), _) => {
                let holder = before.map(|before| before.holder.clone()).unwrap_or_default();
                return Ok(Attempt::Theirs(holder, wait));
            }
            (Move::Take | Move::Renew, None) => self.create(&record).await,
            (Move::Take | Move::Renew, Some(live)) => self.patch(&live, &record).await,
        };
        match written {
            Ok(lease) => {
                self.seen = Some(Seen { record: Record::read(&lease), since: now });
                self.current = Some(lease);
                Ok(Attempt::Ours(now))
            }
            Err(ClusterError::Conflict { .. } | ClusterError::Exists { .. }) => Ok(Attempt::Raced),
            // Deleted meanwhile. If it was not there before, its namespace is not.
            Err(ClusterError::NotFound { .. }) if is_there => Ok(Attempt::Raced),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, record: &Record) -> Result<Arc<Object>, ClusterError> {
        let mut object = Object::bare(&self.lease);
        object.set(&["spec"], record.spec());
        let (manager, expect, part) = (FieldManager::Rollout, Expect::Absent, Part::Main);
        self.cluster.apply(&Apply { object, manager, expect, part }).await
    }

    /// Writes over exactly what was seen: the resource version says so.
    async fn patch(&self, live: &Object, record: &Record) -> Result<Arc<Object>, ClusterError> {
        let (Some(uid), Some(version)) = (live.uid(), live.resource_version()) else {
            return Err(ClusterError::Unavailable { why: format!("{} came without its identity", self.lease) });
        };
        let (key, resource_version) = (self.lease.clone(), version.to_owned());
        self.cluster.patch(&MergePatch { key, uid, resource_version, patch: json!({"spec": record.spec()}) }).await
    }

    fn is_ours(&mut self, sent: Moment) -> Option<Change> {
        self.pause = next_renewal(sent);
        if let Some(term) = &self.term {
            term.renew(sent);
            if self.told.is_empty() {
                return None;
            }
            // A renewal gets through again.
            self.told.clear();
            self.check.ready(self.leads());
            return None;
        }
        let term = Term::begun(self.timer.clone(), sent);
        let leading = Leading::in_term(&term);
        self.term = Some(term);
        self.told.clear();
        self.check.ready(self.leads());
        self.metrics.sync.set_leader(true);
        let transitions = self.seen.as_ref().map_or(0, |seen| seen.record.transitions);
        event::LeaseTaken { lease: &self.lease, identity: self.me.name(), transitions }.emit(&self.metrics);
        Some(Change::Elected(leading))
    }

    fn leads(&self) -> String {
        format!("this Serin leads: it holds the {}", self.lease)
    }

    fn is_theirs(&mut self, holder: &str, wait: Duration) -> Option<Change> {
        self.pause = wait;
        let lost = self.lose(&format!("{holder} holds the {}", self.lease));
        if self.told != holder {
            holder.clone_into(&mut self.told);
            self.check.ready(format!("passive: {holder} holds the {}", self.lease));
            event::LeaseOfAnother { lease: &self.lease, holder }.emit(&self.metrics);
        }
        lost
    }

    fn failed(&mut self, error: &ClusterError) -> Option<Change> {
        let left = self.time_left();
        self.current = None;
        self.pause = left.map_or(RETRY, |left| left.min(RETRY));
        if let ClusterError::TooManyRequests { retry_after: Some(asked) } = error
            && left.is_none()
        {
            self.pause = (*asked).max(RETRY);
        }
        let error = Chain(error).to_string();
        let is_over = left.is_some_and(|left| left.is_zero());
        let lost = if is_over { self.lose(&error) } else { None };
        if self.told != error {
            error.clone_into(&mut self.told);
            let stands = if self.term.is_some() { "this Serin leads" } else { "passive" };
            self.check.ready(format!("{stands}; the {} cannot be had: {error}", self.lease));
            event::LeaseUnusable { lease: &self.lease, error: &error }.emit(&self.metrics);
        }
        lost
    }

    /// How long this process may go on trying to renew; `None`: it does not lead.
    fn time_left(&self) -> Option<Duration> {
        let renewed = self.term.as_ref()?.last_renewal()?;
        Some(time_left(renewed, self.timer.now()))
    }

    fn lose(&mut self, why: &str) -> Option<Change> {
        let term = self.term.take()?;
        term.end();
        self.told.clear();
        self.metrics.sync.set_leader(false);
        event::LeaseLost { lease: &self.lease, why }.emit(&self.metrics);
        Some(Change::Lost)
    }
}
