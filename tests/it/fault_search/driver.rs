//! One run: what is looked at when, when time passes, when the process dies, and how it all ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serin::api::{AgentRuntime, Pause, Step};
use serin::clock::{Clock, SimulatedClock};
use serin::cluster::Cluster;
use serin::cluster::simulated::{Delivery, OwnWrites, PodBehaviour, Pods, Sequence, SimulatedCluster};
use serin::git::simulated::SimulatedRepository;
use serin::git::{Author, Revision};
use serin::ids::{BranchName, ClusterName, SourceName, TreePath};
use serin::manifest::{Rules, Schemas};
use serin::object::{Kind, ObjectKey};
use serin::reconcile::leader::Leading;
use serin::reconcile::queue::WorkQueue;
use serin::reconcile::source::{Source, SourceOptions};
use serin::reconcile::{Core, CoreOptions, Key};
use serin::rollout::{Outcome, Record};
use serin::telemetry::Metrics;
use serin::workload::WorkloadSettings;

use super::invariants::{Invariants, MOST_LAG, agent, manifest};
use super::scenario::{People, Wish, is_good, pick, startup};
use super::weather::{self, Shared, Weather};

/// How long the calm at the end may last before everything must have come to rest, in simulated time.
const LONGEST_CALM: SignedDuration = SignedDuration::from_hours(6);

/// Nothing written for this long is rest: longer than every pause, cooldown and deadline of the scenarios.
const REST: SignedDuration = SignedDuration::from_mins(40);

/// What runs have come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) passes: u64,
    pub(super) crashes: u64,
    pub(super) started: u64,
    pub(super) promoted: u64,
    pub(super) rolled_back: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Self) {
        let Self { passes, crashes, started, promoted, rolled_back } = other;
        self.passes += passes;
        self.crashes += crashes;
        self.started += started;
        self.promoted += promoted;
        self.rolled_back += rolled_back;
    }
}

pub(super) struct Driver {
    seed: u64,
    dice: Sequence,
    clock: Arc<SimulatedClock>,
    cluster: Arc<SimulatedCluster>,
    repository: SimulatedRepository,
    branch: BranchName,
    weather: Shared,
    people: People,
    wish: Wish,
    core: Core,
    queue: WorkQueue<Key>,
    failures: BTreeMap<Key, u32>,
    changes: BoxStream<'static, ObjectKey>,
    invariants: Invariants,
    trace: Vec<String>,
    broken: Option<String>,
    totals: Totals,
}

impl Driver {
    pub(super) fn run(seed: u64) -> Self {
        let mut driver = Self::new(seed);
        driver.calm_start();
        driver.storm();
        driver.calm_end();
        driver.count();
        driver
    }

    pub(super) fn trace(&self) -> String {
        let mut text = format!("seed {}\n", self.seed);
        for line in &self.trace {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// What is there at the end, for whoever reads a failure.
    fn scene(&self) -> String {
        let mut text = String::new();
        for key in [ObjectKey::agent(&agent()), stable(), canary()] {
            let Some(live) = self.cluster.live(&key) else { continue };
            let spec = live.at("/spec/replicas").or(live.at("/spec/rollout"));
            let annotations = live.at("/metadata/annotations");
            let _ = writeln!(
                text,
                "{key} generation {} {}\n  {}\n  {}",
                live.generation(),
                spec.cloned().unwrap_or_default(),
                annotations.cloned().unwrap_or_default(),
                live.at("/status").cloned().unwrap_or_default()
            );
        }
        text
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    #[track_caller]
    pub(super) fn assert_unbroken(&self) {
        if let Some(broken) = &self.broken {
            panic!("{}\n{}\n{broken}\nrun it again with SEED={}", self.trace(), self.scene(), self.seed);
        }
    }

    fn new(seed: u64) -> Self {
        let mut dice = Sequence::of_seed(seed);
        let clock = Arc::new(SimulatedClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let cluster = Arc::new(SimulatedCluster::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let startup = startup(&mut dice);
        cluster.set_pod_script(Box::new(move |_, template| {
            if is_good_template(template) { PodBehaviour::ReadyAfter(startup) } else { PodBehaviour::NeverReady }
        }));
        let branch = BranchName::new("main");
        let repository = SimulatedRepository::new("git", Revision::Branch(branch.clone()));
        let wish = Wish::first(&mut dice);
        let people = People::new(&repository, branch.clone(), &wish);
        let weather =
            Weather { dice: Sequence::of_seed(dice.next_number()), severity: 0, crash: false, log: Vec::new() };
        let weather = Arc::new(Mutex::new(weather));
        weather::over_cluster(&weather, &cluster);
        let core = core(&clock, &cluster, &repository, &branch, &weather);
        let changes = cluster.changes();
        let mut driver = Self {
            seed,
            dice,
            clock,
            cluster,
            repository,
            branch,
            weather,
            people,
            wish,
            core,
            queue: WorkQueue::default(),
            failures: BTreeMap::new(),
            changes,
            invariants: Invariants::new(),
            trace: Vec::new(),
            broken: None,
            totals: Totals::default(),
        };
        driver.say(format!("begin with {:?}", driver.wish));
        driver.look_at_everything();
        driver
    }

    fn say(&mut self, line: impl Into<String>) {
        let at = self.clock.now().duration_since("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        self.trace.push(format!("{:>9.1} {}", at.as_secs_f64(), line.into()));
    }

    /// The first deployment, undisturbed.
    fn calm_start(&mut self) {
        for _ in 0..40 {
            self.run_ready();
            self.pass_time(SignedDuration::from_secs(5));
        }
    }

    fn storm(&mut self) {
        let severity = [0, 1, 3, 8][pick(&mut self.dice, 4)];
        self.weather.lock().unwrap().severity = severity;
        let lag = self.dice.below(MOST_LAG + 1) * self.dice.below(2);
        self.cluster.set_lag(lag, OwnWrites::Visible);
        if self.dice.is_in_percent(30) {
            let mut dice = Sequence::of_seed(self.dice.next_number());
            self.cluster.lose_wake_ups(Box::new(move |_| {
                if dice.is_in_percent(20) { Delivery::Lost } else { Delivery::Arrives }
            }));
        }
        let busy = [1, 3, 8][pick(&mut self.dice, 3)];
        self.say(format!("storm: {severity} % of calls, reads lag {lag} writes, people act {busy} % of the time"));
        let turns = 50 + self.dice.below(100);
        for turn in 0..turns {
            if self.broken.is_some() {
                return;
            }
            if turn == 0 || turn == turns / 2 {
                let what = self.people.try_something(&mut self.dice, &self.repository, &mut self.wish);
                self.say(format!("person: {what}"));
            }
            match self.dice.below(100) {
                roll if roll < busy => self.person_acts(),
                8..10 => self.pods_fail(),
                10..12 => self.pods_recover(),
                12..13 => self.someone_edits(),
                13..14 => self.restart("killed"),
                14..15 => self.clock_jumps(),
                15..17 => self.repository_goes(),
                17..19 => self.look_at_everything(),
                19..35 => {
                    let seconds = [1, 2, 5, 10, 30, 60, 120][pick(&mut self.dice, 7)];
                    self.pass_time(SignedDuration::from_secs(seconds));
                }
                _ => self.run_one(),
            }
            self.after_turn();
        }
    }

    /// Everything works again; nobody does anything more; it must come to rest, in the right place.
    fn calm_end(&mut self) {
        if self.broken.is_some() {
            return;
        }
        self.say("calm");
        {
            let mut weather = self.weather.lock().unwrap();
            weather.severity = 0;
            weather.crash = false;
        }
        self.cluster.heal();
        self.repository.set_reachable(true);
        self.repository.refuse_pushes(None);
        self.cluster.recover_pods(&stable());
        self.pods_recover();
        self.look_at_everything();
        let end = self.clock.now() + LONGEST_CALM;
        let (mut writes, mut since, mut looked_at) = (self.writes(), self.clock.now(), self.clock.now());
        loop {
            self.run_ready();
            if self.broken.is_some() {
                return;
            }
            let now = self.clock.now();
            let next_write = self.writes();
            if next_write != writes {
                (writes, since) = (next_write, now);
            }
            if now.duration_since(since) >= REST {
                break;
            }
            if now > end {
                self.broken = Some("it does not come to rest".into());
                return;
            }
            // As the daemon does, against wake-ups that were lost.
            if now.duration_since(looked_at) >= SignedDuration::from_mins(10) {
                looked_at = now;
                self.look_at_everything();
            }
            let pods = self.cluster.advance();
            let next = [self.queue.next_due(), pods, Some(now + SignedDuration::from_mins(5))];
            let next = next.into_iter().flatten().min().unwrap_or(now).max(now + SignedDuration::from_millis(1));
            self.clock.set(next);
            self.follow();
        }
        self.broken = self.wrong_end();
    }

    /// What is wrong with how it ended.
    fn wrong_end(&mut self) -> Option<String> {
        // At rest, looking once more changes nothing.
        let writes = self.writes();
        self.look_at_everything();
        self.run_ready();
        if self.writes() != writes {
            return Some("looking again at rest wrote something".into());
        }
        let tip = self.repository.tip(&self.branch)?;
        let Some(wanted) = manifest(&self.repository, &tip) else { return Some("the manifest is broken".into()) };
        let Some(live) = self.cluster.live(&ObjectKey::agent(&agent())) else {
            return Some("the agent is gone".into());
        };
        for field in ["promptPackRef", "rollout", "runtime"] {
            let of = |object: &serin::object::Object| object.at("/spec").and_then(|spec| spec.get(field)).cloned();
            if of(&wanted) != of(&live) {
                return Some(format!("git says {field} {:?}, the cluster has {:?}", of(&wanted), of(&live)));
            }
        }
        let record = Record::read(&live);
        let spec = AgentRuntime::read(&wanted).unwrap();
        let rollout = spec.rollout.as_ref().unwrap();
        let candidate = rollout.candidate.as_ref().and_then(|candidate| candidate.prompt_pack_ref.clone());
        let candidate = candidate
            .and_then(|reference| reference.version)
            .filter(|version| spec.prompt_pack_ref.version.as_deref() != Some(version.as_str()));
        let message = live.text("/status/rollout/message").unwrap_or_default().to_owned();
        let pods = self.cluster.pods();
        let serving = pods.iter().filter(|pod| pod.is_available).count() as u64;
        if serving < u64::from(spec.total_replicas()) {
            return Some(format!("{serving} of {} pods are available at the end: {message}", spec.total_replicas()));
        }
        match candidate {
            None if record.rollout.is_some() => Some(format!("a rollout without a candidate is in flight: {message}")),
            None if self.cluster.live(&canary()).is_some() => Some("pods of a candidate are left".into()),
            None if pods.iter().any(|pod| !pod.is_available) => Some("stable is not whole".into()),
            None => None,
            Some(version) => {
                let waits_for_people = rollout.steps.contains(&Step::Pause(Pause::Indefinite))
                    || message.contains("nothing was tried")
                    || (!is_good(&version) && !self.wish_is_automatic(&spec))
                    // A bad candidate that gets no pods at all is never found out.
                    || (!is_good(&version) && message.contains("setWeight 0"));
                (!waits_for_people)
                    .then(|| format!("the candidate {version} is neither promoted nor rolled back: {message}"))
            }
        }
    }

    fn wish_is_automatic(&self, spec: &AgentRuntime) -> bool {
        spec.rollout.as_ref().is_some_and(|rollout| rollout.rollback.mode == serin::api::RollbackMode::Automatic)
    }

    fn writes(&self) -> (usize, usize) {
        (self.cluster.write_log().len(), self.repository.log(&self.branch).len())
    }

    fn person_acts(&mut self) {
        let what = self.people.act(&mut self.dice, &self.repository, &mut self.wish);
        self.say(format!("person: {what}"));
    }

    fn pods_fail(&mut self) {
        let pods = if self.dice.is_in_percent(50) { Pods::All } else { Pods::AtMost(1) };
        let failed = self.cluster.fail_pods(&canary(), pods);
        self.say(format!("{failed} pods of the candidate fail"));
    }

    /// Pods that failed are well again; those that never can be are not.
    fn pods_recover(&mut self) {
        let live = self.cluster.live(&canary());
        if live.and_then(|live| live.at("/spec/template").map(is_good_template)).unwrap_or(false) {
            self.cluster.recover_pods(&canary());
        }
    }

    /// Somebody changes what is Serin's.
    fn someone_edits(&mut self) {
        let (key, replicas) = (if self.dice.is_in_percent(50) { stable() } else { canary() }, self.dice.below(6));
        if self.cluster.edit("kubectl", &key, |object| object.set(&["spec", "replicas"], replicas)).is_ok() {
            self.say(format!("somebody scales {key} to {replicas}"));
            // What others do to pods is not Serin's doing.
            self.invariants.excuse(&self.cluster);
        }
    }

    fn clock_jumps(&mut self) {
        let seconds = [-900, -30, 30, 900][pick(&mut self.dice, 4)];
        self.clock.advance(SignedDuration::from_secs(seconds));
        self.say(format!("the clock jumps by {seconds} s"));
    }

    fn repository_goes(&mut self) {
        match self.dice.below(4) {
            0 => self.repository.set_reachable(false),
            1 => self.repository.refuse_pushes(Some("the branch is protected")),
            _ => {
                self.repository.set_reachable(true);
                self.repository.refuse_pushes(None);
            }
        }
        self.say("the git server comes or goes");
    }

    fn pass_time(&mut self, by: SignedDuration) {
        // Pods are followed as time passes, so that a lag of status is a lag and not a jump.
        let end = self.clock.now() + by;
        while let Some(next) = self.cluster.advance().filter(|next| *next < end) {
            self.clock.set(next);
            self.follow();
        }
        self.clock.set(end);
        self.follow();
    }

    /// Controllers act, and what changed wakes its keys.
    fn follow(&mut self) {
        let _next = self.cluster.advance();
        self.invariants.observe(&self.cluster);
        while let Some(Some(changed)) = self.changes.next().now_or_never() {
            if let Ok(keys) = block_on(self.core.touched_by(&changed)) {
                keys.into_iter().for_each(|key| self.queue.wake(key));
            }
        }
    }

    fn look_at_everything(&mut self) {
        if let Ok(keys) = block_on(self.core.first_keys()) {
            keys.into_iter().for_each(|key| self.queue.wake(key));
        }
    }

    fn run_ready(&mut self) {
        for _ in 0..400 {
            if self.broken.is_some() || !self.run_key() {
                return;
            }
            self.after_turn();
        }
        self.broken = Some("four hundred passes without an end".into());
    }

    fn run_one(&mut self) {
        if !self.run_key() {
            self.pass_time(SignedDuration::from_secs(1));
        }
    }

    /// Runs the next key; `false`: there is none.
    fn run_key(&mut self) -> bool {
        let Some(key) = self.queue.take(self.clock.now()) else { return false };
        self.totals.passes += 1;
        let outcome = block_on(self.core.run(&Leading::alone(), &key));
        self.queue.done(&key);
        let log = std::mem::take(&mut self.weather.lock().unwrap().log);
        match outcome {
            Ok(next) => {
                self.failures.remove(&key);
                self.say(format!("{key}"));
                next.now.into_iter().for_each(|key| self.queue.wake(key));
                next.later.into_iter().for_each(|(key, at)| self.queue.wake_at(key, at));
            }
            Err(error) => {
                self.say(format!("{key}: {error}"));
                let failures = self.failures.entry(key.clone()).or_default();
                *failures += 1;
                let wait = SignedDuration::from_millis(500 << (*failures).min(6));
                self.queue.wake_at(key, self.clock.now() + wait);
            }
        }
        self.trace.extend(log);
        true
    }

    fn after_turn(&mut self) {
        if self.cluster.is_crashed() || self.weather.lock().unwrap().crash {
            self.restart("crashed");
        }
        self.follow();
        let outcome = self.invariants.check(&self.cluster, &self.repository, &self.branch, &self.people);
        if let Err(broken) = outcome {
            self.broken.get_or_insert(broken);
        }
    }

    /// The process ends, and a new one knows only what is in git and in the cluster.
    fn restart(&mut self, how: &str) {
        self.say(format!("the process is {how} and started again"));
        self.totals.crashes += 1;
        self.weather.lock().unwrap().crash = false;
        self.cluster.restart();
        self.core = core(&self.clock, &self.cluster, &self.repository, &self.branch, &self.weather);
        self.queue = WorkQueue::default();
        self.failures.clear();
        self.changes = self.cluster.changes();
        self.look_at_everything();
    }

    /// Counts how the decisions of this run went, from the commits.
    fn count(&mut self) {
        let log = self.repository.log(&self.branch);
        let has = |outcome: &str| {
            log.iter().filter(|c| c.message.contains(&format!("Rollout-Outcome: {outcome}"))).count() as u64
        };
        self.totals.started = self.invariants.started();
        self.totals.promoted = has(Outcome::Promoted.as_str());
        self.totals.rolled_back = has("rolled-back");
    }
}

fn stable() -> ObjectKey {
    ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent")
}

fn canary() -> ObjectKey {
    ObjectKey::new(Kind::DEPLOYMENT, "prod", "agent-canary")
}

fn is_good_template(template: &serde_json::Value) -> bool {
    let text = template.to_string();
    !text.contains("content-3-")
}

/// The simulated parts never wait.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("simulated parts complete at once")
}

fn core(
    clock: &Arc<SimulatedClock>,
    cluster: &Arc<SimulatedCluster>,
    repository: &SimulatedRepository,
    branch: &BranchName,
    weather: &Shared,
) -> Core {
    thread_local! {
        static SCHEMAS: Arc<Schemas> =
            Arc::new(Schemas::from_crds(serin::api::crds::all().into_iter().map(|(_, text)| text)).unwrap());
    }
    let view = repository.following(Revision::Branch(branch.clone()));
    weather::over_repository(weather, &view);
    let options = SourceOptions {
        name: SourceName::new("main"),
        root: TreePath::new("prod"),
        branch: Some(branch.clone()),
        author: Author { name: "Serin".into(), email: "serin@example.com".into() },
        rules: Rules::default(),
        adopt_from: Vec::new(),
        poll_interval: SignedDuration::from_mins(5),
        status: Some((BranchName::new("serin/status/sim"), SignedDuration::from_mins(1))),
    };
    let source = Arc::new(Source::new(options, Arc::new(view), SCHEMAS.with(Arc::clone)));
    let options =
        CoreOptions { cluster_name: ClusterName::new("sim"), workload: Arc::new(WorkloadSettings::default()) };
    Core::new(
        options,
        Arc::clone(cluster) as Arc<dyn Cluster>,
        Arc::clone(clock) as Arc<dyn Clock>,
        vec![source],
        Metrics::new(),
    )
}
