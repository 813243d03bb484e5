//! `serin diff` on a real API server: from a person's clone, before the push.

use serde_json::Value;

use crate::cli_support::{Output, serin, serin_with};
use crate::support::control_plane::User;
use crate::support::git_server::Protocol;
use crate::support::manifests::Manifest;
use crate::support::middleman::{Act, Middleman};
use crate::support::process;
use crate::support::site::{AGENT, AGENT_FILE, Site};

/// Runs `serin diff` beside the site's own work.
async fn diff(site: &Site, user: User, more: &[&str]) -> Output {
    let kubeconfig = site.plane.kubeconfig(user).display().to_string();
    let mut args: Vec<String> = ["diff", "--kubeconfig", &kubeconfig, "--default-namespace", &site.namespace]
        .into_iter()
        .chain(more.iter().copied())
        .map(str::to_owned)
        .collect();
    args.push(format!("--mirror-dir={}", process::scratch("diff-mirror").display()));
    let run = move || serin(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.expect("no panic")
}

fn last_lines(output: &Output, count: usize) -> Vec<&str> {
    let lines: Vec<&str> = output.stdout.lines().collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

#[tokio::test]
async fn a_clone_is_compared_before_the_push_and_nothing_is_written() {
    let manifest = Manifest::new(&["25", "50", "100"]);
    let site = Site::running(&manifest).await;
    let clone = site.clone.folder().to_str().unwrap().to_owned();
    let scope = ["--allow-namespace", site.namespace.as_str()];
    let quiet = diff(&site, User::Admin, &[&[clone.as_str()][..], &scope].concat()).await;
    assert_eq!((quiet.code, quiet.stdout.as_str()), (0, "no difference, 7 unchanged\n"), "{}", quiet.stderr);

    // Nothing of this is committed.
    let candidate = manifest.candidate("2.0.0");
    site.clone.write(AGENT_FILE, &candidate.render(&site.namespace));
    site.clone.git(&["rm", "--quiet", "packs/3.0.0.yaml"]);
    let nowhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: far, namespace: nowhere-at-all}\n";
    site.clone.write("far.yaml", nowhere);
    let provider = "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: Provider\nmetadata: {name: gpt}\nspec: {}\n";
    site.clone.write("provider.yaml", provider);
    let before = (site.agent().await, site.list("configmaps").await);
    let mark = site.plane.audit_mark();
    let scope = ["--allow-namespace", site.namespace.as_str(), "--allow-namespace", "nowhere-at-all"];
    let found = diff(&site, User::Admin, &[&[clone.as_str()][..], &scope].concat()).await;
    assert_eq!(found.code, 1, "{}\n{}", found.stdout, found.stderr);
    let name = format!("{}/{AGENT}", site.namespace);
    for part in [
        &format!("change AgentRuntime {name}  {AGENT_FILE}:2\n"),
        "+    candidate:\n+      promptPackRef:\n+        name: pack\n+        version: \"2.0.0\"\n",
        &format!("prune PromptPack {}/pack-3-0-0\n", site.namespace),
        "refused ConfigMap nowhere-at-all/far  far.yaml:1\n  it cannot be created in the namespace nowhere-at-all: ",
        &format!("refused Provider {}/gpt  provider.yaml:1\n  the cluster does not serve Provider", site.namespace),
    ] {
        assert!(found.stdout.contains(part), "{part}\n{}", found.stdout);
    }
    assert_eq!(
        last_lines(&found, 2),
        [
            "0 to create, 1 to change, 2 to prune, 4 unchanged, 2 refused",
            &format!("agent {name}: starts a rollout of pack 2.0.0 in 3 steps"),
        ]
    );
    for noise in ["managedFields", "resourceVersion", "status:", "serin.dev/rollout"] {
        assert!(!found.stdout.contains(noise), "{noise}\n{}", found.stdout);
    }
    assert_eq!((site.agent().await, site.list("configmaps").await), before);
    let asked: Vec<_> = site.plane.audit_since(mark).into_iter().filter(|request| request.user() == "admin").collect();
    let of_diff = asked.iter().filter(|request| request.user_agent().starts_with("serin/"));
    let writes: Vec<_> =
        of_diff.filter(|request| request.is_write() && request.namespace() == site.namespace).collect();
    assert!(!writes.is_empty());
    assert!(writes.iter().all(|request| request.uri().contains("dryRun=All")), "{writes:?}");

    let json = diff(&site, User::Admin, &[&[clone.as_str(), "-o", "json"][..], &scope].concat()).await;
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["summary"]["change"], &json["summary"]["refused"]), (&1.into(), &2.into()));
    // The push makes it so.
    site.clone.git(&["rm", "--quiet", "--cached", "--ignore-unmatch", "far.yaml", "provider.yaml"]);
    std::fs::remove_file(site.clone.path("far.yaml")).unwrap();
    std::fs::remove_file(site.clone.path("provider.yaml")).unwrap();
    site.push(&candidate, "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
}

#[tokio::test]
async fn revisions_and_remotes_are_compared_and_say_what_happens_to_a_rollout_in_flight() {
    let manifest = Manifest::new(&["50", "forever", "100"]);
    let site = Site::running(&manifest).await;
    let calm = site.tip();
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_step(1).await;
    let clone = site.clone.folder().to_str().unwrap().to_owned();
    let url = site.server.url("config");
    let scope = ["--allow-namespace", site.namespace.as_str()];
    let with = |more: &[&str]| [more, &scope].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    for more in
        [with(&["--repo", &url]), with(&["--repo", &url, "--revision", "main"]), with(&[&clone, "--revision", "HEAD"])]
    {
        let same = diff(&site, User::Serin, &more.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!((same.code, same.stdout.as_str()), (0, "no difference, 7 unchanged\n"), "{more:?}\n{}", same.stderr);
    }
    let name = format!("agent {}/{AGENT}", site.namespace);
    for more in [with(&["--repo", &url, "--revision", &calm]), with(&[&clone, "--revision", "HEAD~1"])] {
        let back = diff(&site, User::Serin, &more.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(back.code, 1, "{}", back.stderr);
        assert_eq!(last_lines(&back, 1), [format!("{name}: rolls back pack 2.0.0: the candidate was withdrawn")]);
    }
    site.clone.write(AGENT_FILE, &Manifest { version: "2.0.0".into(), ..manifest }.render(&site.namespace));
    let promoted = diff(&site, User::Serin, &[&[clone.as_str()][..], &scope].concat()).await;
    let told = last_lines(&promoted, 1)[0];
    assert!(told.starts_with(&format!("{name}: promotes: ")), "{told}");
    let missing = diff(&site, User::Serin, &["--repo", &url, "--revision", "nothing"]).await;
    assert_eq!(missing.code, 3, "{}", missing.stderr);
    assert!(missing.stderr.contains("a branch, tag or commit nothing is not there in "), "{}", missing.stderr);
}

#[tokio::test]
async fn without_rights_the_verb_and_the_kind_are_said() {
    let site = Site::empty().await;
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    site.clone.write("a.yaml", map);
    let clone = site.clone.folder().to_str().unwrap().to_owned();
    let refused = diff(&site, User::Nobody, &[&clone]).await;
    assert_eq!((refused.code, refused.stdout.as_str()), (4, ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("not allowed to list "), "{}", refused.stderr);
    // The rights of Serin in its namespace are enough.
    let allowed = diff(&site, User::Serin, &[&clone]).await;
    assert_eq!(allowed.code, 1, "{}", allowed.stderr);
    assert!(allowed.stdout.contains("note: you may not list ConfigMap in all namespaces"), "{}", allowed.stdout);
    assert!(allowed.stdout.ends_with("1 to create, 0 to change, 0 to prune, 0 unchanged\n"), "{}", allowed.stdout);
}

/// What a git server asks for that knows the token `w0rd`.
const LET_IN: &str = "Basic eC1hY2Nlc3MtdG9rZW46dzByZA==";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_behind_a_token_is_read_with_the_flags_of_the_daemon() {
    let site = Site::served_by(Protocol::Http).await;
    site.clone.push_file("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "one");
    let door = Middleman::before(&format!("127.0.0.1:{}", site.server.port()), |head| {
        let is_let_in = head.lines().any(|line| {
            let (name, value) = line.split_once(": ").unwrap_or_default();
            name.eq_ignore_ascii_case("authorization") && value == LET_IN
        });
        if is_let_in { Act::Forward } else { Act::Answer("401 Unauthorized") }
    });
    let url = site.repo().replace(&format!(":{}/", site.server.port()), &format!(":{}/", door.port()));
    let token = process::scratch("token").join("token");
    std::fs::write(&token, "w0rd\n").unwrap();
    let token = format!("--token-file={}", token.display());
    let scope = ["--allow-namespace", site.namespace.as_str(), "--repo", url.as_str()];

    let refused = diff(&site, User::Admin, &scope).await;
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("401"), "{}", refused.stderr);
    let compared = diff(&site, User::Admin, &[&scope[..], &[token.as_str()]].concat()).await;
    assert_eq!(compared.code, 1, "{}", compared.stderr);
    assert!(compared.stdout.ends_with("1 to create, 0 to change, 0 to prune, 0 unchanged\n"), "{}", compared.stdout);

    let ask = |more: &[&str]| {
        let mirrors = format!("--mirror-dir={}", process::scratch("status-mirror").display());
        serin(&[&["status", "--from-git", "--repo", &url, &mirrors][..], more].concat())
    };
    assert!(ask(&[]).stderr.contains("401"));
    let let_in = ask(&[&token]);
    assert_eq!(let_in.code, 3, "there is no status branch: {}", let_in.stderr);
    assert!(!let_in.stderr.contains("401"), "{}", let_in.stderr);

    // A variable may be set for what the daemon follows; on a clone, a flag is of no use, and that is said.
    let clone = site.clone.folder().to_str().unwrap().to_owned();
    let local = ["status", "--from-git", "--repo", &clone];
    let from_clone = serin_with(&local, &[("SERIN_TOKEN_FILE", "/not/there")]);
    assert_eq!(from_clone.code, 3, "{}", from_clone.stderr);
    let useless = serin(&[&local[..], &[token.as_str()]].concat());
    assert_eq!(useless.code, 2, "{}", useless.stderr);
    assert!(useless.stderr.contains("--token-file: this is for https and ssh"), "{}", useless.stderr);
}
