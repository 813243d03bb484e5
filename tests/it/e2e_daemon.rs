//! The program as a neighbour: signals, endpoints, the status command, and what is not its own.

use std::time::Duration;

use serde_json::json;

use crate::cli_support::serin;
use crate::support::control_plane::User;
use crate::support::git_server::Protocol;
use crate::support::manifests::{Manifest, pack};
use crate::support::site::{AGENT, Site};

#[tokio::test]
async fn sigterm_in_the_middle_of_a_rollout_ends_it_cleanly_and_the_next_start_goes_on() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    let before = site.rollout().await;
    let (code, took) = site.terminate().await;
    assert_eq!(code, Some(0), "{}", site.log());
    assert!(took < Duration::from_secs(5), "{took:?}");
    site.start().await;
    site.until_looked_at().await;
    assert_eq!(site.rollout().await["startedAt"], before["startedAt"]);
}

#[tokio::test]
async fn a_hangup_fetches_at_once_from_a_smart_http_server() {
    let site = Site::served_by(Protocol::Http).await;
    site.clone.push_file("pack.yaml", &pack(&site.namespace, "1.0.0"), "a pack");
    site.start().await;
    site.until("the pack is there", || async { site.get("promptpacks", "pack-1-0-0").await.is_some() }).await;
    // The repository is asked every five minutes.
    let started = tokio::time::Instant::now();
    site.push_file("pack-2.yaml", &pack(&site.namespace, "2.0.0"), "another pack");
    site.until("the other pack is there", || async { site.get("promptpacks", "pack-2-0-0").await.is_some() }).await;
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn health_readiness_and_metrics_answer_and_the_status_command_lists_the_agent() {
    let manifest = Manifest::new(&["25", "forever", "100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_resumable().await;
    assert!(site.http("/healthz").unwrap().starts_with("HTTP/1.1 200"));
    assert!(site.http("/readyz").unwrap().starts_with("HTTP/1.1 200"));
    site.until("the metrics tell the rollout", || async {
        let metrics = site.http("/metrics").unwrap_or_default();
        let active = metrics.lines().find(|line| line.starts_with("omnia_rollout_active{") && line.contains(AGENT));
        active.is_some_and(|line| line.ends_with(" 1"))
    })
    .await;

    let kubeconfig = format!("--kubeconfig={}", site.plane.kubeconfig(User::Admin).display());
    let output = serin(&["status", &kubeconfig, "--namespace", &site.namespace]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let row = output.stdout.lines().nth(1).unwrap_or_else(|| panic!("{}", output.stdout));
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[..2], [site.namespace.as_str(), AGENT], "{}", output.stdout);
    for cell in ["2/3", "25%", "1.0.0", "2.0.0"] {
        assert!(cells.contains(&cell), "{cell} is not in {}", output.stdout);
    }
}

#[tokio::test]
async fn an_agent_of_a_source_that_is_not_followed_here_is_left_alone() {
    let site = Site::empty().await;
    site.clone.push_file("pack.yaml", &pack(&site.namespace, "1.0.0"), "a pack");
    site.start().await;
    let mut agent = Manifest::new(&["100"]).object(&site.namespace);
    agent["metadata"]["labels"] = json!({"serin.dev/source": "elsewhere"});
    site.apply("agentruntimes", &agent, "another-serin").await;
    site.until_looked_at().await;
    let agent = site.agent().await;
    assert!(agent.get("status").is_none(), "{agent}");
    assert!(site.get("deployments", AGENT).await.is_none());
}
