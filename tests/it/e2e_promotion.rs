//! A candidate that works: from the push that sets it to the commit that promotes it, and the bytes of that commit.

use std::collections::BTreeSet;

use crate::support::manifests::Manifest;
use crate::support::pod_log::Pods;
use crate::support::site::{AGENT, AGENT_FILE, Site};

/// Whether samples with these numbers of ready pods (candidate, stable) come in this order.
#[track_caller]
pub(crate) fn assert_passes_through(samples: &[Pods], splits: &[(usize, usize)]) {
    let seen: Vec<_> = samples.iter().map(|pods| (pods.candidate.len(), pods.stable.len())).collect();
    let mut rest = seen.iter();
    for split in splits {
        assert!(rest.any(|pods| pods == split), "{split:?} of {splits:?} is not in its place in {seen:?}");
    }
}

/// Every moment has at least this many ready pods.
#[track_caller]
pub(crate) fn assert_never_fewer(samples: &[Pods], pods: usize) {
    let fewest = samples.iter().min_by_key(|sample| sample.ready()).expect("samples");
    assert!(fewest.ready() >= pods, "only {} ready pods: {fewest:?}", fewest.ready());
}

#[tokio::test]
async fn a_pushed_candidate_gets_its_weights_in_pods_and_is_promoted_by_a_commit() {
    let manifest = Manifest::new(&["25", "200ms", "50", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    pods.until_no_candidate().await;
    assert_passes_through(&pods.samples(), &[(0, 4), (1, 3), (2, 2), (4, 0), (4, 4), (0, 4)]);
    assert_never_fewer(&pods.samples(), 4);
    assert_eq!(site.decisions(), [format!("promote {}/{AGENT} to pack 2.0.0", site.namespace)]);
    let promoted = Manifest { version: "2.0.0".into(), ..manifest };
    assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap(), promoted.render(&site.namespace));
    let message = site.server_git(&["log", "-1", "--format=%B", "main"]);
    for trailer in [
        format!("Rollout-Agent: {}/{AGENT}", site.namespace),
        "Rollout-Outcome: promoted".to_owned(),
        format!("Rollout-Cluster: {}", site.namespace),
    ] {
        assert!(message.lines().any(|line| line == trailer), "{trailer} is not in:\n{message}");
    }
}

#[tokio::test]
async fn the_promotion_is_on_the_git_server_before_the_spec_in_the_cluster_changes() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let promotion = site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    let moves = site.moves();
    let pushed = moves.iter().find(|one| one.commit == promotion && one.branch == "refs/heads/main").expect("a push");
    let changes: Vec<_> = site
        .requests()
        .into_iter()
        .filter(|request| request.resource() == "agentruntimes" && request.is_write())
        .filter(|request| {
            request.body().is_some_and(|body| body.pointer("/spec/promptPackRef/version") == Some(&"2.0.0".into()))
        })
        .collect();
    let first = changes.first().expect("the spec was changed");
    assert!(first.received() > pushed.at, "the spec changed at {}, git at {}", first.received(), pushed.at);
}

#[tokio::test]
async fn a_promotion_waits_for_a_git_server_that_is_away() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    let pods = site.watch_pods().await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let token = site.until_resumable().await;
    let file = manifest.candidate("2.0.0").render(&site.namespace);
    let resumed = file.replace("  annotations:\n", &format!("  annotations:\n    serin.dev/resume: {token}\n"));
    assert_ne!(file, resumed);
    site.push_file(AGENT_FILE, &resumed, "go on");
    site.until_step(2).await;
    site.server.stop();
    site.until_rollout("it says what it waits for", |rollout| {
        rollout["message"].as_str().is_some_and(|text| text.contains("the promotion waits for git"))
    })
    .await;
    assert_eq!(site.agent().await["spec"]["promptPackRef"]["version"], "1.0.0");
    assert_eq!(pods.last().candidate.len(), 4);
    site.server.resume();
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    assert_never_fewer(&pods.samples(), 4);
}

/// What a person may have written: another order, other quotes, comments everywhere, lines that end as on Windows.
const WINDOWS: &str = "\
# Kept by hand; do not sort.
kind: AgentRuntime
apiVersion: omnia.altairalabs.ai/v1alpha1
spec:
    rollout:
        rollback: {mode: automatic,   cooldown: 1s}   # quick, for once
        steps: [ {setWeight: 100} ]
        trafficRouting: { mode: replicaWeighted }

        # The one to try.
        candidate:
            promptPackRef:
                name: pack
                version: 2.0.0
    runtime: { replicas: 2 }
    promptPackRef:
        version: '1.0.0'   # quoted, so that nobody reads it as a number
        name: \"pack\"
    facades:
    - {type: websocket, port: 8080}
metadata:
    namespace: NAMESPACE
    name: assistant
---
# Another document of the same file.
apiVersion: v1
kind: ConfigMap
metadata: {name: beside, namespace: NAMESPACE}
data: {a: \"1\"}
";

#[tokio::test]
async fn comments_key_order_and_line_endings_survive_promotion_byte_by_byte() {
    let site = Site::empty().await;
    let with_candidate = WINDOWS.replace("NAMESPACE", &site.namespace).replace('\n', "\r\n");
    let (before, rest) = with_candidate.split_once("        candidate:\r\n").unwrap();
    let after = rest.split_once("    runtime:").unwrap().1;
    let without = format!("{before}    runtime:{after}");
    for version in ["1.0.0", "2.0.0"] {
        let pack = crate::support::manifests::pack(&site.namespace, version);
        site.clone.write(&format!("packs/{version}.yaml"), &pack);
    }
    site.clone.push_file(AGENT_FILE, &without, "an agent");
    site.start().await;
    site.until_stable("1.0.0", 2).await;
    assert_eq!(site.get("configmaps", "beside").await.unwrap()["data"]["a"], "1");
    site.push_file(AGENT_FILE, &with_candidate, "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 2).await;

    let promoted = String::from_utf8(site.server_file(AGENT_FILE)).unwrap();
    let changed = |from: &str, to: &str| {
        let to: BTreeSet<_> = to.split_inclusive('\n').collect();
        let lines = from.split_inclusive('\n').filter(|line| !to.contains(line));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        changed(&with_candidate, &promoted),
        [
            "        candidate:\r\n",
            "            promptPackRef:\r\n",
            "                name: pack\r\n",
            "                version: 2.0.0\r\n",
            "        version: '1.0.0'   # quoted, so that nobody reads it as a number\r\n",
        ]
    );
    let version = "        version: '2.0.0'   # quoted, so that nobody reads it as a number\r\n";
    assert_eq!(changed(&promoted, &with_candidate), [version]);
    let expected = without.replace("'1.0.0'", "'2.0.0'");
    assert_eq!(promoted, expected);
}
