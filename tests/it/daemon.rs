//! The daemon in this process, on simulated parts and the real clock: what one agent may do to the others, and how
//! decisions travel together.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::SignedDuration;
use serin::clock::{Clock, SystemClock};
use serin::cluster::Cluster;
use serin::cluster::simulated::{PodBehaviour, SimulatedCluster};
use serin::git::simulated::SimulatedRepository;
use serin::git::{Author, Revision};
use serin::ids::{BranchName, ClusterName, SourceName, TreePath};
use serin::manifest::{Rules, Schemas};
use serin::object::{Kind, ObjectKey};
use serin::reconcile::daemon::Daemon;
use serin::reconcile::leader::Leadership;
use serin::reconcile::source::{Source, SourceOptions};
use serin::reconcile::{Core, CoreOptions};
use serin::telemetry::Metrics;
use serin::workload::WorkloadSettings;

use crate::support::until;

/// One agent and its pack as documents of one file; with a candidate on trial or not.
fn agent(name: &str, candidate: bool) -> String {
    let candidate = if candidate { "    candidate: {promptPackRef: {name: pack, version: 2.0.0}}\n" } else { "" };
    format!(
        "---\napiVersion: omnia.altairalabs.ai/v1alpha1\nkind: AgentRuntime\nmetadata: {{name: {name}, namespace: prod}}\nspec:\n  \
         facades: [{{type: websocket}}]\n  promptPackRef:\n    name: pack\n    version: 1.0.0 # of {name}\n  rollout:\n\
         {candidate}    trafficRouting: {{}}\n    steps:\n      - setWeight: 100\n"
    )
}

fn packs() -> String {
    let mut text = String::new();
    for version in ["1.0.0", "2.0.0"] {
        let _ = write!(
            text,
            "---\napiVersion: omnia.altairalabs.ai/v1alpha1\nkind: PromptPack\nmetadata: {{name: pack-{0}, namespace: prod}}\n\
             spec: {{packName: pack, version: {version}, source: {{type: configmap, configMapRef: {{name: content-{0}}}}}}}\n",
            version.replace('.', "-")
        );
    }
    text
}

struct Stage {
    cluster: Arc<SimulatedCluster>,
    repository: SimulatedRepository,
    branch: BranchName,
    metrics: Metrics,
    daemon: Arc<Daemon>,
}

impl Stage {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let cluster = Arc::new(SimulatedCluster::new(Arc::clone(&clock)));
        cluster.set_pod_script(Box::new(|_, _| PodBehaviour::ReadyAfter(SignedDuration::from_millis(20))));
        let branch = BranchName::new("main");
        let repository = SimulatedRepository::new("git", Revision::Branch(branch.clone()));
        let schemas = Schemas::from_crds(serin::api::crds::all().into_iter().map(|(_, text)| text)).unwrap();
        let options = SourceOptions {
            name: SourceName::new("main"),
            root: TreePath::new(""),
            branch: Some(branch.clone()),
            author: Author { name: "Serin".into(), email: "serin@example.com".into() },
            rules: Rules::default(),
            adopt_from: Vec::new(),
            poll_interval: SignedDuration::from_secs(60),
            status: None,
        };
        let source = Arc::new(Source::new(options, Arc::new(repository.clone()), Arc::new(schemas)));
        let metrics = Metrics::new();
        let core = Core::new(
            CoreOptions { cluster_name: ClusterName::new("here"), workload: Arc::new(WorkloadSettings::default()) },
            Arc::clone(&cluster) as Arc<dyn Cluster>,
            Arc::clone(&clock),
            vec![source],
            metrics.clone(),
        );
        let daemon =
            Daemon::new(core, Arc::clone(&cluster) as Arc<dyn Cluster>, clock, metrics.clone(), Leadership::Alone);
        Self { cluster, repository, branch, metrics, daemon }
    }

    fn push(&self, files: &[(&str, String)], message: &str) {
        let edits: BTreeMap<TreePath, Option<Vec<u8>>> =
            files.iter().map(|(path, text)| (TreePath::new(*path), Some(text.clone().into_bytes()))).collect();
        self.repository.person("A Person").commit(&self.branch, edits, message);
    }

    fn version(&self, agent: &str) -> Option<String> {
        let live = self.cluster.live(&ObjectKey::new(Kind::AGENT_RUNTIME, "prod", agent))?;
        live.text("/status/activeVersion").map(str::to_owned)
    }

    /// Runs the daemon while `story` goes on.
    async fn run(&self, story: impl Future<Output = ()>) {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let cluster = tokio::spawn(Arc::clone(&self.cluster).run_in_real_time());
        let daemon = Arc::clone(&self.daemon);
        let running = tokio::spawn(async move {
            daemon
                .run(4, async {
                    // The sender is dropped where the story fails.
                    let _ = ended.await;
                })
                .await;
        });
        story.await;
        let _ = end.send(());
        running.await.expect("the daemon ends by itself");
        cluster.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_about_many_agents_in_one_file_are_a_commit_each_and_all_arrive() {
    let stage = Stage::new();
    let names: Vec<String> = (0..30).map(|n| format!("agent-{n}")).collect();
    let all = |candidate| names.iter().map(|name| agent(name, candidate)).collect::<String>();
    stage.push(&[("packs.yaml", packs()), ("agents.yaml", all(false))], "begin");
    stage
        .run(async {
            until("all agents run 1.0.0", || async {
                names.iter().all(|name| stage.version(name).as_deref() == Some("1.0.0"))
            })
            .await;
            stage.push(&[("agents.yaml", all(true))], "try 2.0.0 everywhere");
            until("all agents run 2.0.0", || async {
                names.iter().all(|name| stage.version(name).as_deref() == Some("2.0.0"))
            })
            .await;
        })
        .await;
    let log = stage.repository.log(&stage.branch);
    let promotions = log.iter().filter(|commit| commit.message.starts_with("promote prod/agent-")).count();
    assert_eq!((promotions, log.len()), (30, 32));
    let tip = stage.repository.tip(&stage.branch).unwrap();
    let text = String::from_utf8(stage.repository.files(&tip)[&TreePath::new("agents.yaml")].to_vec()).unwrap();
    let expected: String = all(false).replace("version: 1.0.0 #", "version: 2.0.0 #");
    assert_eq!(text, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_one_agents_pass_stops_neither_the_daemon_nor_the_others() {
    let stage = Stage::new();
    stage.cluster.set_admission(Box::new(|object| {
        assert!(object.name() != "bad" || object.key().kind != Kind::DEPLOYMENT, "this agent is cursed");
        Ok(())
    }));
    let file = |candidate| ["good", "bad", "other"].map(|name| agent(name, candidate)).concat();
    stage.push(&[("packs.yaml", packs()), ("agents.yaml", file(false))], "begin");
    stage
        .run(async {
            for name in ["good", "other"] {
                until("the others run", || async { stage.version(name).is_some() }).await;
            }
            stage.push(&[("agents.yaml", file(true))], "try 2.0.0");
            for name in ["good", "other"] {
                until("the others are promoted", || async { stage.version(name).as_deref() == Some("2.0.0") }).await;
            }
        })
        .await;
    assert_eq!(stage.version("bad"), None);
    let metrics = stage.metrics.render();
    let panics = metrics.lines().find(|line| line.starts_with("serin_passes_total") && line.contains("panic"));
    assert!(panics.is_some_and(|line| line.contains("kind=\"agent\"")), "{metrics}");
}
