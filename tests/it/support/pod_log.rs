//! The pods of a namespace over time: what traffic could reach after each change, in the order of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use serde_json::Value;
use tokio::sync::oneshot;

/// The pods after one change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pods {
    /// Uids of ready pods of stable.
    pub(crate) stable: BTreeSet<String>,
    /// Uids of ready pods of the candidate.
    pub(crate) candidate: BTreeSet<String>,
    /// Pods of the candidate that are not ready.
    pub(crate) unready_candidates: usize,
    /// Ready pods by pack version.
    pub(crate) versions: BTreeMap<String, usize>,
}

impl Pods {
    /// Ready pods.
    pub(crate) fn ready(&self) -> usize {
        self.stable.len() + self.candidate.len()
    }
}

/// A record of pods; dropping it ends it.
pub(crate) struct PodLog {
    samples: Arc<Mutex<Vec<Pods>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for PodLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodLog {
    /// Records from now on; returns when the pods of now are known.
    pub(crate) async fn start(client: kube::Client, namespace: &str) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (listed, wait) = oneshot::channel();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let api = Api::<DynamicObject>::namespaced_with(client, namespace, &kind);
        let task = tokio::spawn(record(api, samples.clone(), listed));
        wait.await.expect("the watch begins");
        Self { samples, task }
    }

    /// What was recorded until now, the oldest first.
    pub(crate) fn samples(&self) -> Vec<Pods> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the record has come to where no pod of a candidate is ready: it may be a moment behind what a list says.
    pub(crate) async fn until_no_candidate(&self) {
        super::until("the record has no pod of a candidate", || async { self.last().candidate.is_empty() }).await;
    }

    /// The pods now.
    pub(crate) fn last(&self) -> Pods {
        self.samples().pop().expect("the first list is a sample")
    }
}

async fn record(api: Api<DynamicObject>, samples: Arc<Mutex<Vec<Pods>>>, listed: oneshot::Sender<()>) {
    let mut pods: BTreeMap<String, Value> = BTreeMap::new();
    let mut listed = Some(listed);
    let mut events = pin!(watcher(api, watcher::Config::default()));
    let value = |pod: &DynamicObject| serde_json::to_value(pod).expect("JSON");
    while let Some(event) = events.next().await {
        match event.expect("a watch of the tests' own API server") {
            watcher::Event::Init => {
                pods.clear();
                continue;
            }
            watcher::Event::InitApply(pod) => {
                pods.insert(pod.metadata.uid.clone().unwrap_or_default(), value(&pod));
                continue;
            }
            watcher::Event::InitDone => {}
            watcher::Event::Apply(pod) => {
                pods.insert(pod.metadata.uid.clone().unwrap_or_default(), value(&pod));
            }
            watcher::Event::Delete(pod) => {
                pods.remove(&pod.metadata.uid.clone().unwrap_or_default());
            }
        }
        let sample = summarize(&pods);
        let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.last() != Some(&sample) {
            samples.push(sample);
        }
        drop(samples);
        if let Some(listed) = listed.take() {
            // The test may have ended.
            let _gone = listed.send(());
        }
    }
}

fn summarize(pods: &BTreeMap<String, Value>) -> Pods {
    let mut all = Pods::default();
    for (uid, pod) in pods {
        let conditions = pod["status"]["conditions"].as_array();
        let is_ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
        let is_candidate = pod["metadata"]["labels"]["omnia.altairalabs.ai/track"] == "canary";
        if !is_ready || pod["metadata"]["deletionTimestamp"].is_string() {
            all.unready_candidates += usize::from(is_candidate);
            continue;
        }
        *all.versions.entry(version_of(pod).to_owned()).or_default() += 1;
        if is_candidate { &mut all.candidate } else { &mut all.stable }.insert(uid.clone());
    }
    all
}

/// The pack version that a pod was made for.
pub(crate) fn version_of(pod: &Value) -> &str {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut variables = containers.flat_map(|container| container["env"].as_array().into_iter().flatten());
    let version = variables.find(|variable| variable["name"] == "OMNIA_PROMPTPACK_VERSION");
    version.and_then(|version| version["value"].as_str()).unwrap_or_default()
}
