//! The world that the integration tests run in: a real control plane, a kubelet that does as it is told, real git
//! servers, and a way to wait that never guesses how long something takes.

pub(crate) mod admission;
pub(crate) mod api_proxy;
pub(crate) mod certificates;
pub(crate) mod control_plane;
pub(crate) mod forward_proxy;
pub(crate) mod git_clone;
pub(crate) mod git_remotes;
pub(crate) mod git_server;
pub(crate) mod in_process;
pub(crate) mod kubelet;
pub(crate) mod middleman;
pub(crate) mod manifests;
pub(crate) mod pod_log;
pub(crate) mod process;
pub(crate) mod rights;
pub(crate) mod second;
pub(crate) mod site;
mod site_git;
pub(crate) mod small_disk;
pub(crate) mod ssh_server;

use std::time::Duration;

/// How long a condition may take before a test gives up. Generous: on a loaded machine with two cores a wait
/// that times out for want of CPU time says nothing. A test that passes never waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Looks again and again until `probe` finds something, and returns it.
///
/// # Panics
/// After a minute, naming `what` was waited for.
pub(crate) async fn eventually<T, F>(what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let search = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(PATIENCE, search).await {
        Ok(found) => found,
        Err(_) => panic!("waited {PATIENCE:?} in vain: {what}"),
    }
}

/// The same for a condition without an answer.
pub(crate) async fn until<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    eventually(what, || {
        let holds = holds();
        async move { holds.await.then_some(()) }
    })
    .await;
}
