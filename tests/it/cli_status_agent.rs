//! `serin status AGENT` in the middle of a rollout: from the cluster, live, and from git.

use std::path::Path;

use serde_json::Value;

use crate::cli_support::{Output, serin};
use crate::support::control_plane::User;
use crate::support::git_clone::hermetic_git;
use crate::support::manifests::Manifest;
use crate::support::process::{self, Running};
use crate::support::site::{AGENT, Site};

async fn status(args: Vec<String>) -> Output {
    let run = move || serin(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.expect("no panic")
}

fn args(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

#[tokio::test]
async fn one_agent_is_shown_in_full_while_it_is_rolled_out() {
    let manifest = Manifest::new(&["25", "50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(2).await;
    let kubeconfig = site.plane.kubeconfig(User::Admin).display().to_string();
    let ask = |more: &[&str]| {
        status(args(&[&["status", "--kubeconfig", &kubeconfig, "-n", &site.namespace][..], more].concat()))
    };
    let page = ask(&[AGENT]).await;
    assert_eq!((page.code, page.stderr.as_str()), (0, ""), "{}", page.stdout);
    let has = |line: &str| {
        page.stdout.lines().any(|found| found.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(line))
    };
    for line in [
        &format!("agent {}/{AGENT}", site.namespace),
        "phase stepping, step 3 of 4",
        "stable 1.0.0, 2/2 pods ready",
        "candidate 2.0.0, 2/2 pods ready",
        "weight 50% asked for, 50% delivered",
        "waits for to go on, set the annotation serin.dev/resume to ",
        "✓ 1 setWeight 25 20",
        "✓ 2 setWeight 50 done 20",
        "▸ 3 pause until resumed 20",
        "4 setWeight 100",
        "Ready True RuntimeReady",
    ] {
        assert!(has(line), "{line}\n{}", page.stdout);
    }
    let json: Value = serde_json::from_str(&ask(&[AGENT, "-o", "json"]).await.stdout).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["agent"]["name"], AGENT);
    assert_eq!((&json["rollout"]["step"], &json["rollout"]["steps"]), (&3.into(), &4.into()));
    assert_eq!(json["pods"]["candidate"]["ready"], 2);
    let times: Vec<bool> =
        json["steps"].as_array().unwrap().iter().map(|step| step["completedAt"].is_string()).collect();
    // When a step before the last one ended is on the status branch, and not in the cluster.
    assert_eq!(times, [false, true, false, false], "{json:#}");
    let yaml: Value = serde_saphyr::from_str(&ask(&[AGENT, "-o", "yaml"]).await.stdout).unwrap();
    assert_eq!(yaml["steps"], json["steps"]);

    let missing = ask(&["asistant"]).await;
    assert_eq!((missing.code, missing.stdout.as_str()), (3, ""));
    assert_eq!(
        missing.stderr,
        format!(
            "error: there is no agent asistant in the namespace {}\n  hint: did you mean {AGENT}?\n",
            site.namespace
        )
    );
}

#[tokio::test]
async fn a_watch_on_a_pipe_adds_a_line_for_each_change_until_it_is_interrupted() {
    let manifest = Manifest::new(&["25", "50", "100"]);
    let site = Site::running(&manifest).await;
    let file = process::scratch("watch").join("out");
    let kubeconfig = site.plane.kubeconfig(User::Serin).display().to_string();
    let name = format!("{}/{AGENT}", site.namespace);
    let command = args(&["status", &name, "--watch", "--kubeconfig", &kubeconfig]);
    let mut watch = Running::start(Path::new(env!("CARGO_BIN_EXE_serin")), &command, file.clone());
    let seen = || std::fs::read_to_string(&file).unwrap();
    site.until("it shows the agent at rest", || async { seen().contains(&format!("{name}  idle  stable 1.0.0 4/4")) })
        .await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    site.until("it shows the promotion", || async {
        seen().lines().last().is_some_and(|line| line.contains("idle  stable 2.0.0 4/4"))
    })
    .await;
    watch.signal("INT");
    let code = site.eventually("it ends", || std::future::ready(watch_end(&mut watch))).await;
    assert_eq!(code, Some(0), "{}", seen());
    let seen = seen();
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines.iter().any(|line| line.contains("stepping, step ")), "{seen}");
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "{seen}");
    assert!(!seen.contains('\u{1b}'), "{seen}");
}

#[tokio::test]
async fn the_status_branch_tells_the_same_without_a_cluster() {
    let manifest = Manifest::new(&["50", "100"]);
    let site = Site::running(&manifest).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    let promotion = site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    let branch = format!("serin/status/{}", site.namespace);
    let file = format!("{branch}:{}/{AGENT}/status.yaml", site.namespace);
    let shown = || {
        let mut git = hermetic_git();
        git.arg("-C").arg(site.server.repository("config")).args(["show", &file]);
        String::from_utf8(git.output().expect("git").stdout).expect("UTF-8")
    };
    site.until("the branch knows the commit of the promotion", || async {
        let text = shown();
        text.contains("phase: idle") && text.contains(&promotion)
    })
    .await;
    let mirrors = process::scratch("status-mirror").display().to_string();
    let url = site.server.url("config");
    let from = |repo: &str, more: &[&str]| {
        let base = ["status", "--from-git", "--repo", repo, "--mirror-dir", &mirrors, "--kubeconfig", "/not/there"];
        status(args(&[&base[..], more].concat()))
    };
    let subject = format!("promote {}/{AGENT} to pack 2.0.0", site.namespace);
    site.clone.git(&["fetch", "--quiet"]);
    let clone = site.clone.folder().display().to_string();
    for repo in [url.as_str(), &clone] {
        let page = from(repo, &[AGENT]).await;
        assert_eq!((page.code, page.stderr.as_str()), (0, ""), "{}", page.stdout);
        for part in [
            "phase   idle\n",
            "stable  2.0.0\n",
            "STEPS OF THE LAST ROLLOUT\n  ✓ 1   setWeight 50   20",
            &promotion[..10],
            &subject,
        ] {
            let flat = page.stdout.replace("    ", "  ").replace("   ", "  ");
            let part = part.replace("   ", "  ");
            assert!(flat.contains(&part), "{part}\n{}", page.stdout);
        }
        let list = from(repo, &["-o", "json"]).await;
        let list: Value = serde_json::from_str(&list.stdout).unwrap();
        assert_eq!((&list[0]["name"], &list[0]["stableVersion"]), (&AGENT.into(), &"2.0.0".into()));
    }
    let missing = from(&url, &["--cluster-name", "other"]).await;
    assert_eq!(missing.code, 3, "{}", missing.stderr);
    assert!(missing.stderr.contains("the branch serin/status/other is not there in "), "{}", missing.stderr);
    let nowhere = from("/not/there", &[]).await;
    assert_eq!(nowhere.code, 3, "{}", nowhere.stderr);

    // With both, the cluster says how it stands, and git what was decided.
    let kubeconfig = site.plane.kubeconfig(User::Admin).display().to_string();
    let both =
        ["status", AGENT, "-n", &site.namespace, "--kubeconfig", &kubeconfig, "--repo", &url, "--mirror-dir", &mirrors];
    let page = status(args(&both)).await;
    assert_eq!(page.code, 0, "{}", page.stderr);
    assert!(page.stdout.contains(&subject) && page.stdout.contains("4/4 pods ready"), "{}", page.stdout);
}

fn watch_end(watch: &mut Running) -> Option<Option<i32>> {
    watch.exit_status().map(|status| status.code())
}
