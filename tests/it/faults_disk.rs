//! The disk of the mirrors is full in the middle of a rollout, and has room again.
//!
//! It is really full: a file system of two MiB that is filled to its last byte, and, for systems that refuse that to their
//! users, a limit to the size of files as a quota sets it. Both work with and without root.

use crate::e2e_promotion::assert_never_fewer;
use crate::support::kubelet::Behaviour;
use crate::support::manifests::Manifest;
use crate::support::site::{AGENT, AGENT_FILE, Site};
use crate::support::small_disk::SmallDisk;

/// A site in the middle of a rollout, whose daemon has no room left.
async fn out_of_room(disk: SmallDisk, manifest: &Manifest) -> Site {
    let site = Site::empty().await;
    site.keep_mirrors_on(disk);
    site.start_with(manifest).await;
    site.pods_are("assistant-canary-", Behaviour::NeverReady).await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until("the candidate's pods wait", || async { site.replicas("assistant-canary").await.is_some() }).await;
    site.fill_disk();
    site
}

/// Waits until the status says that the promotion waits for room, and where.
async fn until_the_promotion_waits(site: &Site, disk: SmallDisk) {
    site.pods_are("assistant-canary-", Behaviour::Ready).await;
    let rollout = site
        .until_rollout("the status says what is full", |rollout| {
            rollout["message"].as_str().is_some_and(|message| message.contains(disk.words()))
        })
        .await;
    let message = rollout["message"].as_str().unwrap();
    assert!(message.contains("the promotion waits for git: no commit for "), "{message}");
    assert!(message.contains("/mirror/default: "), "it names the folder: {message}");
    assert_eq!(site.replicas("assistant-canary").await, Some((4, 4)), "what is known goes on");
}

#[tokio::test]
async fn a_disk_without_room_is_said_and_the_rollout_comes_to_its_end_when_there_is_some() {
    let disk = SmallDisk::FileSystem;
    if !disk.is_permitted() {
        println!("this system gives its users no namespaces: only the quota is tested");
        return;
    }
    let manifest = Manifest::new(&["50", "100"]);
    let site = out_of_room(disk, &manifest).await;
    let pods = site.watch_pods().await;
    until_the_promotion_waits(&site, disk).await;
    // A person's push cannot be read either.
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: late\n  namespace: {}\n", site.namespace);
    site.clone.pull();
    site.push_file("late.yaml", &map, "something else");
    let says = |log: &str| {
        let mut lines = log.lines();
        lines.any(|line| {
            line.contains("cannot be fetched") && line.contains("/mirror/default") && line.contains(disk.words())
        })
    };
    site.until("the log says what is full", || async { says(&site.log()) }).await;
    assert!(site.decisions().is_empty() && site.get("configmaps", "late").await.is_none());
    // Damage on top of it: a new mirror has no room, and what is left of the old one stays until there is some.
    let mirror = site.mirror_on_disk();
    std::fs::remove_file(mirror.join("HEAD")).unwrap();
    site.announce();
    site.until("the log says what a new mirror lacks", || async {
        site.log().contains("No space left on device (os error 28)")
    })
    .await;
    assert!(std::fs::read_dir(mirror.join("objects")).unwrap().count() > 2, "nothing was deleted");

    site.make_room_on_disk();
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    site.until("the push is applied", || async { site.get("configmaps", "late").await.is_some() }).await;
    let promoted = Manifest { version: "2.0.0".into(), ..manifest };
    assert_eq!(String::from_utf8(site.server_file(AGENT_FILE)).unwrap(), promoted.render(&site.namespace));
    assert_never_fewer(&pods.samples(), 4);
}

#[tokio::test]
async fn a_quota_that_is_used_up_holds_a_promotion_back_and_not_the_rollback_that_takes_its_place() {
    let disk = SmallDisk::Quota;
    let manifest = Manifest { progress_deadline: "10s", ..Manifest::new(&["50", "100"]) };
    let site = out_of_room(disk, &manifest).await;
    until_the_promotion_waits(&site, disk).await;
    // Nothing of the promotion has left this machine, so it can still be taken back.
    site.pods_are("assistant-canary-", Behaviour::Crash).await;
    site.until("all traffic is with stable", || async {
        site.replicas("assistant-canary").await.is_none_or(|(wanted, _)| wanted == 0)
            && site.replicas(AGENT).await == Some((4, 4))
    })
    .await;
    assert!(site.decisions().is_empty());

    site.make_room_on_disk();
    site.until_decisions(1).await;
    assert_eq!(site.decisions(), [format!("roll back {}/{AGENT} from pack 2.0.0", site.namespace)]);
    site.until_stable("1.0.0", 4).await;
    let file = String::from_utf8(site.server_file(AGENT_FILE)).unwrap();
    let file = file.replace("    omnia.altairalabs.ai/last-rolled-back-version: 2.0.0\n", "");
    assert_eq!(file, manifest.render(&site.namespace));
}
