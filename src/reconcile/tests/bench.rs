//! The shell on simulated parts, with a queue that nothing but its own wake-ups moves.

use super::*;

pub(super) const AGENT: &str = "prod/agent.yaml";

/// A core, its queue and what it works on. Nothing but its own wake-ups moves it.
pub(super) struct Bench {
    pub(super) clock: Arc<SimulatedClock>,
    pub(super) cluster: Arc<SimulatedCluster>,
    pub(super) repository: SimulatedRepository,
    pub(super) branch: BranchName,
    pub(super) core: Core,
    pub(super) queue: WorkQueue<Key>,
    pub(super) changes: BoxStream<'static, ObjectKey>,
}

impl Bench {
    /// With two versions of a pack and an agent with the steps `steps` in git; nothing has run yet.
    pub(super) fn new(steps: &str) -> Self {
        Self::adopting(steps, &[])
    }

    /// The same, where the source `copies` adopts from others.
    pub(super) fn adopting(steps: &str, from: &[&str]) -> Self {
        Self::following(&["main", "copies"], steps, from)
    }

    /// The same with a source of its own and no other.
    pub(super) fn alone(steps: &str) -> Self {
        Self::following(&["main"], steps, &[])
    }

    pub(super) fn following(names: &[&str], steps: &str, from: &[&str]) -> Self {
        let clock = Arc::new(SimulatedClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let cluster = Arc::new(SimulatedCluster::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let branch = BranchName::new("main");
        let repository = SimulatedRepository::new("git", Revision::Branch(branch.clone()));
        let core = core(&clock, Arc::clone(&cluster) as Arc<dyn Cluster>, &repository, names, from);
        let changes = cluster.changes();
        let mut files: BTreeMap<TreePath, Option<Vec<u8>>> = ["1.0.0", "2.0.0", "3.0.0"]
            .into_iter()
            .map(|version| {
                let path = TreePath::new(format!("prod/pack-{version}.yaml"));
                (path, Some(pack("prod", version).into_bytes()))
            })
            .collect();
        files.insert(TreePath::new(AGENT), Some(agent("", steps).into_bytes()));
        repository.person("A Person").commit(&branch, files, "begin");
        let mut bench = Self { clock, cluster, repository, branch, core, queue: WorkQueue::default(), changes };
        bench.queue.wake(Key::Fetch(SourceName::new("main")));
        bench
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        self.repository.person("A Person").write(&self.branch, path, text);
    }

    /// The process ends and begins again, with the sources of [`Self::new`].
    pub(super) fn restart(&mut self) {
        self.core = core(&self.clock, self.cluster(), &self.repository, &["main", "copies"], &[]);
        self.queue = WorkQueue::default();
        self.core.first_keys().now_or_never().unwrap().unwrap().into_iter().for_each(|key| self.queue.wake(key));
    }

    fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::clone(&self.cluster) as Arc<dyn Cluster>
    }

    /// From now on the core sees the cluster through `cluster`.
    pub(super) fn look_through(&mut self, cluster: Arc<dyn Cluster>) {
        self.core = core(&self.clock, cluster, &self.repository, &["main", "copies"], &[]);
        self.fetch();
    }

    /// A push is heard of.
    pub(super) fn fetch(&mut self) {
        self.queue.wake(Key::Fetch(SourceName::new("main")));
    }

    /// Runs one key, as the daemon does.
    pub(super) fn run_key(&mut self, key: &Key) {
        match self.core.run(&Leading::alone(), key).now_or_never().unwrap() {
            Ok(next) => {
                next.now.into_iter().for_each(|key| self.queue.wake(key));
                next.later.into_iter().for_each(|(key, at)| self.queue.wake_at(key, at));
            }
            Err(_) => {
                self.queue.wake_at(key.clone(), self.clock.now() + SignedDuration::from_secs(1));
                self.core.touched_by_failure(key).into_iter().for_each(|key| self.queue.wake(key));
            }
        }
        self.follow();
    }

    pub(super) fn follow(&mut self) {
        let _next = self.cluster.advance();
        while let Some(Some(changed)) = self.changes.next().now_or_never() {
            let keys = self.core.touched_by(&changed).now_or_never().unwrap().unwrap();
            keys.into_iter().for_each(|key| self.queue.wake(key));
        }
    }

    /// Runs for so long, up to a key that `until` names.
    pub(super) fn run(&mut self, seconds: i64, until: impl Fn(&Key) -> bool) {
        for _ in 0..=seconds {
            for _ in 0..100 {
                let Some(key) = self.queue.take(self.clock.now()) else { break };
                self.queue.done(&key);
                if until(&key) {
                    self.queue.wake(key);
                    return;
                }
                self.run_key(&key);
            }
            self.clock.advance(SignedDuration::from_secs(1));
            self.follow();
        }
    }

    pub(super) fn run_for(&mut self, seconds: i64) {
        self.run(seconds, |_| false);
    }

    pub(super) fn live_agent(&self) -> Option<Arc<Object>> {
        self.cluster.live(&ObjectKey::agent(&AgentKey::new("prod", "agent")))
    }

    pub(super) fn version(&self) -> String {
        self.live_agent().unwrap().text("/spec/promptPackRef/version").unwrap().to_owned()
    }

    pub(super) fn promotions(&self) -> usize {
        self.repository.log(&self.branch).iter().filter(|commit| commit.message.starts_with("promote ")).count()
    }

    pub(super) fn pushes_fail(&self) {
        self.repository.decide_fates(|call| match call {
            simulated::Call::Publish(_) => {
                simulated::Fate::FailBefore(RepositoryError::Unreachable { address: "git".into(), why: "gone".into() })
            }
            _ => simulated::Fate::Proceed,
        });
    }
}

/// Where the status of sources named `main` goes.
pub(super) const STATUS: &str = "status";

/// A core with sources of these names. Each follows the folder of its name, and the first one `prod`; that one says how its
/// agents are.
fn core(
    clock: &Arc<SimulatedClock>,
    cluster: Arc<dyn Cluster>,
    repository: &SimulatedRepository,
    names: &[&str],
    from: &[&str],
) -> Core {
    let schemas = Arc::new(Schemas::from_crds(crate::api::crds::all().into_iter().map(|(_, text)| text)).unwrap());
    let source = |name: &&str| {
        let is_main = *name == "main";
        let options = SourceOptions {
            name: SourceName::new(*name),
            root: TreePath::new(if is_main { "prod" } else { name }),
            branch: Some(BranchName::new("main")),
            author: Author { name: "Serin".into(), email: "serin@example.com".into() },
            rules: Rules::default(),
            adopt_from: from.iter().filter(|from| *from != name).map(|from| SourceName::new(*from)).collect(),
            poll_interval: SignedDuration::from_mins(5),
            status: Some((BranchName::new(STATUS), SignedDuration::from_secs(1))),
        };
        Arc::new(Source::new(options, Arc::new(repository.clone()), Arc::clone(&schemas)))
    };
    let options =
        CoreOptions { cluster_name: ClusterName::new("sim"), workload: Arc::new(WorkloadSettings::default()) };
    Core::new(options, cluster, Arc::clone(clock) as Arc<dyn Clock>, names.iter().map(source).collect(), Metrics::new())
}

pub(super) fn pack(namespace: &str, version: &str) -> String {
    format!(
        "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: PromptPack\n\
         metadata: {{name: pack-{0}, namespace: {namespace}}}\n\
         spec: {{packName: pack, version: {version}, source: {{type: configmap, configMapRef: {{name: content-{0}}}}}}}\n",
        version.replace('.', "-")
    )
}

/// The manifest, with this candidate's version unless it is empty.
pub(super) fn agent(candidate: &str, steps: &str) -> String {
    let candidate = match candidate {
        "" => String::new(),
        version => format!("    candidate:\n      promptPackRef: {{name: pack, version: {version}}}\n"),
    };
    format!(
        "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: AgentRuntime\nmetadata:\n  name: agent\n  namespace: prod\n\
         spec:\n  facades: [{{type: websocket}}]\n  promptPackRef:\n    name: pack\n    version: 1.0.0\n  runtime:\n    \
         replicas: 2\n  rollout:\n{candidate}    steps: {steps}\n"
    )
}
