//! Another tool changes an agent in the middle of a pass about it.

use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;

use super::*;
use crate::cluster::{Apply, EventRecord, FieldManager, MergePatch, Part};
use crate::ids::Uid;

const STEPS: &str = "[{setWeight: 100}]";

/// A cluster in which somebody applies an old manifest as soon as Serin has corrected an agent.
struct Meddled {
    inner: Arc<SimulatedCluster>,
    /// How often he still does.
    left: AtomicUsize,
}

impl Meddled {
    fn meddle(&self, written: &Object) {
        let is_more = |left: usize| left.checked_sub(1);
        if written.key().kind == Kind::AGENT_RUNTIME
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_more).is_ok()
        {
            self.inner
                .edit("kubectl", &written.key(), |agent| {
                    agent.set(&["spec", "promptPackRef", "version"], "1.0.0");
                })
                .unwrap();
        }
    }
}

#[async_trait]
impl Cluster for Meddled {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, ClusterError> {
        self.inner.get(key).await
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, ClusterError> {
        self.inner.list(kind, namespace).await
    }

    fn is_current(&self, kind: &Kind, namespace: &str) -> bool {
        self.inner.is_current(kind, namespace)
    }

    async fn serves(&self, kind: &Kind) -> Result<bool, ClusterError> {
        self.inner.serves(kind).await
    }

    async fn apply(&self, write: &Apply) -> Result<Arc<Object>, ClusterError> {
        let written = self.inner.apply(write).await?;
        if write.manager == FieldManager::Sync && write.part == Part::Main {
            self.meddle(&written);
        }
        Ok(written)
    }

    async fn preview(&self, write: &Apply) -> Result<Arc<Object>, ClusterError> {
        self.inner.preview(write).await
    }

    async fn patch(&self, write: &MergePatch) -> Result<Arc<Object>, ClusterError> {
        self.inner.patch(write).await
    }

    async fn delete(&self, key: &ObjectKey, uid: &Uid) -> Result<(), ClusterError> {
        self.inner.delete(key, uid).await
    }

    async fn record(&self, event: &EventRecord) -> Result<(), ClusterError> {
        self.inner.record(event).await
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        self.inner.changes()
    }
}

#[test]
fn what_another_tool_writes_in_the_middle_of_a_pass_is_corrected_and_never_taken_for_what_git_says() {
    let mut bench = Bench::new(STEPS);
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", STEPS));
    bench.fetch();
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
    let pods = |bench: &Bench| bench.cluster.pods().iter().map(|pod| pod.name.clone()).collect::<Vec<_>>();
    let before = pods(&bench);

    bench.look_through(Arc::new(Meddled { inner: Arc::clone(&bench.cluster), left: AtomicUsize::new(3) }));
    let key = ObjectKey::agent(&AgentKey::new("prod", "agent"));
    bench.cluster.edit("kubectl", &key, |agent| agent.set(&["spec", "promptPackRef", "version"], "1.0.0")).unwrap();
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
    assert_eq!(pods(&bench), before, "no pod has changed");
}
