//! The kubelet of the tests: it runs no container, it writes the status of pods as it is told.
//!
//! Pods become ready at once, unless the annotation `test.serin.dev/pods` of their template or a rule says
//! otherwise. A rule counts for the pods that exist as well, so that a running Deployment can lose its pods.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use serin::clock::{Clock as _, SystemClock};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::LOOK_EVERY;

/// Annotation of a pod template: `ready`, `never-ready`, `fail` or `ready-after: 2s` (`ms` and `s`).
pub(crate) const ANNOTATION: &str = "test.serin.dev/pods";

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Runs and is ready.
    Ready,
    /// Runs and is not ready.
    NeverReady,
    /// Its container ends again and again (`CrashLoopBackOff`).
    Crash,
    /// Runs, and becomes ready when this time has passed since the pod was seen or the rule was given.
    ReadyAfter(Duration),
}

impl Behaviour {
    fn parse(text: &str) -> Self {
        match text.split_once(':').map_or((text, ""), |(word, time)| (word, time.trim())) {
            ("ready", "") => Self::Ready,
            ("never-ready", "") => Self::NeverReady,
            ("fail", "") => Self::Crash,
            ("ready-after", time) => {
                let (number, unit) = time.split_at(time.find(|c: char| !c.is_ascii_digit()).unwrap_or(time.len()));
                let number = number.parse().unwrap_or_else(|_| panic!("{ANNOTATION}: {text}"));
                match unit {
                    "ms" => Self::ReadyAfter(Duration::from_millis(number)),
                    "s" => Self::ReadyAfter(Duration::from_secs(number)),
                    _ => panic!("{ANNOTATION}: {text}"),
                }
            }
            _ => panic!("{ANNOTATION}: {text}"),
        }
    }
}

/// A running kubelet; dropping it ends it.
pub(crate) struct Kubelet {
    orders: mpsc::UnboundedSender<Order>,
}

struct Order {
    rule: Rule,
    done: oneshot::Sender<()>,
}

struct Rule {
    namespace: String,
    name_prefix: String,
    behaviour: Behaviour,
    given: Instant,
}

impl Kubelet {
    /// Starts one with the credentials of `kubeconfig`, on a thread and a runtime of its own.
    pub(crate) fn start(kubeconfig: PathBuf) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(run(kubeconfig, inbox));
        });
        Self { orders }
    }

    /// From now on the pods of `namespace` whose names start with `name_prefix` behave like this, those that exist
    /// too. Of the rules that fit a pod the one with the longest prefix counts, of those the latest, and all before the
    /// pod's annotation. Returns when the status of the existing pods is written.
    pub(crate) async fn set(&self, namespace: &str, name_prefix: &str, behaviour: Behaviour) {
        let (done, wait) = oneshot::channel();
        let given = Instant::now();
        let rule = Rule { namespace: namespace.into(), name_prefix: name_prefix.into(), behaviour, given };
        self.orders.send(Order { rule, done }).unwrap_or_else(|_| panic!("the kubelet ended"));
        wait.await.expect("the kubelet answers");
    }
}

/// A pod that exists, and what was last written about it.
struct Known {
    pod: Pod,
    seen: Instant,
    written: Option<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    NotReady,
    Crashing,
}

struct Pods {
    client: kube::Client,
    rules: Vec<Rule>,
    known: BTreeMap<(String, String), Known>,
    addresses: u32,
}

async fn run(kubeconfig: PathBuf, mut inbox: mpsc::UnboundedReceiver<Order>) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = kube::Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
    let events = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    let mut pods = Pods { client, rules: Vec::new(), known: BTreeMap::new(), addresses: 0 };
    loop {
        let due = pods.next_due();
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = inbox.recv() => {
                let Some(Order { rule, done }) = order else { return };
                pods.rules.push(rule);
                pods.write_all().await;
                // The test may have stopped waiting.
                let _gone = done.send(());
            }
            event = events.next() => match event.expect("a watcher never ends") {
                // An unreachable API server: the watcher tries again.
                Err(_) | Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => pods.saw(pod).await,
                Ok(watcher::Event::Delete(pod)) => {
                    pods.known.remove(&key(&pod));
                }
            },
            () = timer => pods.write_all().await,
        }
    }
}

impl Pods {
    async fn saw(&mut self, pod: Pod) {
        let key = key(&pod);
        match self.known.get_mut(&key) {
            Some(known) if known.pod.uid() == pod.uid() => known.pod = pod,
            _ => {
                self.known.insert(key.clone(), Known { pod, seen: Instant::now(), written: None });
            }
        }
        self.write(&key).await;
    }

    async fn write_all(&mut self) {
        let keys: Vec<_> = self.known.keys().cloned().collect();
        for key in keys {
            self.write(&key).await;
        }
    }

    async fn write(&mut self, key: &(String, String)) {
        let Some(known) = self.known.get(key) else { return };
        let (state, _) = self.wanted(known);
        if known.written == Some(state) || known.pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        self.addresses += 1;
        let patch = json!({
            "metadata": {"uid": known.pod.uid()},
            "status": status(&known.pod, state, self.addresses),
        });
        let api = Api::<Pod>::namespaced(self.client.clone(), &key.0);
        // A pod that was deleted meanwhile needs no status; an unreachable server is asked again.
        if api.patch_status(&key.1, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
            self.known.get_mut(key).expect("nothing removed it").written = Some(state);
        }
    }

    /// The state that a pod should have now, and when that changes by itself.
    fn wanted(&self, known: &Known) -> (State, Option<Instant>) {
        let (behaviour, since) = self.behaviour(known);
        match behaviour {
            Behaviour::Ready => (State::Ready, None),
            Behaviour::NeverReady => (State::NotReady, None),
            Behaviour::Crash => (State::Crashing, None),
            Behaviour::ReadyAfter(time) if since + time <= Instant::now() => (State::Ready, None),
            Behaviour::ReadyAfter(time) => (State::NotReady, Some(since + time)),
        }
    }

    fn behaviour(&self, known: &Known) -> (Behaviour, Instant) {
        let (namespace, name) = key(&known.pod);
        let fits = |rule: &&Rule| rule.namespace == namespace && name.starts_with(&rule.name_prefix);
        // The last of several greatest ones is taken.
        if let Some(rule) = self.rules.iter().filter(fits).max_by_key(|rule| rule.name_prefix.len()) {
            return (rule.behaviour, known.seen.max(rule.given));
        }
        let annotation = known.pod.annotations().get(ANNOTATION);
        (annotation.map_or(Behaviour::Ready, |text| Behaviour::parse(text)), known.seen)
    }

    /// When there is something to write without an event: a pod's time comes, or it came while another was written.
    fn next_due(&self) -> Option<Instant> {
        let due = |known: &Known| match self.wanted(known) {
            _ if known.pod.metadata.deletion_timestamp.is_some() => None,
            (state, _) if known.written != Some(state) => Some(Instant::now() + LOOK_EVERY),
            (_, due) => due,
        };
        self.known.values().filter_map(due).min()
    }
}

fn key(pod: &Pod) -> (String, String) {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

fn status(pod: &Pod, state: State, address: u32) -> Value {
    let now = SystemClock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = if state == State::Ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now});
    let container_state = match state {
        State::Ready | State::NotReady => json!({"running": {"startedAt": now}}),
        State::Crashing => json!({"waiting": {
            "reason": "CrashLoopBackOff",
            "message": "back-off 40s restarting failed container",
        }}),
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": state == State::Ready,
            "started": state != State::Crashing,
            "restartCount": if state == State::Crashing { 3 } else { 0 },
            "state": container_state,
        })
    });
    json!({
        "phase": "Running",
        "podIP": format!("10.1.{}.{}", address / 250 % 250, address % 250 + 1),
        "startTime": now,
        "conditions": [
            condition("PodScheduled", "True"),
            condition("Initialized", "True"),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "containerStatuses": containers.collect::<Vec<_>>(),
    })
}
