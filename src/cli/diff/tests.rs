//! Whole diffs of a folder against the simulated cluster.

use std::time::Duration;

use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::clock::SimulatedClock;
use crate::cluster::simulated::SimulatedCluster;
use crate::object::ObjectKey;

const AGENT: &str = "\
apiVersion: omnia.altairalabs.ai/v1alpha1
kind: AgentRuntime
metadata: {name: support, namespace: shop}
spec:
  facades: [{type: websocket, port: 8080}]
  promptPackRef: {name: pack, version: 1.0.0}
  runtime: {replicas: 2}
";

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: shop\ndata:\n  x: \"{value}\"\n")
}

struct Scene {
    cluster: SimulatedCluster,
    clock: Arc<SimulatedClock>,
    folder: tempfile::TempDir,
    args: DiffArgs,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(SimulatedClock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()));
        let folder = tempfile::tempdir().unwrap();
        let args = DiffArgs { folder: Some(folder.path().to_str().unwrap().to_owned()), ..DiffArgs::default() };
        Self { cluster: SimulatedCluster::new(clock.clone()), clock, folder, args }
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.path().join(file), text).unwrap();
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.folder.path().join(file)).unwrap();
    }

    async fn wanted(&self) -> Result<Wanted, Failure> {
        Wanted::read(self.args.clone(), &TypedAs::default(), &Environment::default()).await
    }

    /// Applies all that the folder says, as a sync does.
    async fn sync(&self) {
        let wanted = self.wanted().await.unwrap();
        let mut live = Vec::new();
        for kind in synced_kinds(&wanted.loaded) {
            live.extend(self.cluster.list(&kind, None).await.unwrap());
        }
        for write in plan_whole(&wanted.loaded, &live, &wanted.source.name, &wanted.claimants()).applies {
            self.cluster.apply(&write).await.unwrap();
        }
    }

    async fn diff(&self) -> Report {
        compare(&self.cluster, &self.wanted().await.unwrap(), self.clock.as_ref()).await.unwrap()
    }
}

#[tokio::test]
async fn what_is_new_changed_and_gone_is_shown_object_by_object() {
    let scene = Scene::new();
    scene.write("same.yaml", &map("same", "1"));
    scene.write("changed.yaml", &map("changed", "1"));
    scene.write("gone.yaml", &map("gone", "1"));
    scene.sync().await;
    let report = scene.diff().await;
    assert_eq!((report.text(Paint::Plain).as_str(), report.status()), ("no difference, 3 unchanged\n", ExitStatus::Ok));

    scene.write("changed.yaml", &format!("# A comment.\n---\n{}", map("changed", "2")));
    scene.write("new.yaml", &map("new", "1"));
    scene.write("agent.yaml", AGENT);
    scene.remove("gone.yaml");
    let versions = || scene.cluster.all_objects();
    let before = versions();
    let report = scene.diff().await;
    assert_eq!(report.status(), ExitStatus::Findings);
    assert_snapshot!(report.text(Paint::Plain), @r#"
    change ConfigMap shop/changed  changed.yaml:3
    @@ -1,6 +1,6 @@
     apiVersion: v1
     data:
    -  x: "1"
    +  x: "2"
     kind: ConfigMap
     metadata:
       annotations:

    create ConfigMap shop/new  new.yaml:1
    @@ -0,0 +1,11 @@
    +apiVersion: v1
    +data:
    +  x: "1"
    +kind: ConfigMap
    +metadata:
    +  annotations:
    +    serin.dev/tracking: default:/ConfigMap:shop/new
    +  labels:
    +    serin.dev/source: default
    +  name: new
    +  namespace: shop

    create AgentRuntime shop/support  agent.yaml:1
    @@ -0,0 +1,21 @@
    +apiVersion: omnia.altairalabs.ai/v1alpha1
    +kind: AgentRuntime
    +metadata:
    +  annotations:
    +    serin.dev/tracking: default:omnia.altairalabs.ai/AgentRuntime:shop/support
    +  labels:
    +    serin.dev/source: default
    +  name: support
    +  namespace: shop
    +spec:
    +  facades:
    +  - handler: runtime
    +    port: 8080
    +    type: websocket
    +  mode: agent
    +  promptPackRef:
    +    name: pack
    +    version: "1.0.0"
    +  runtime:
    +    replicas: 2
    +  serviceGroup: default
      then Serin starts nothing: no matching PromptPack: "pack" has no version 1.0.0 in namespace "shop"; none is published there

    prune ConfigMap shop/gone
    @@ -1,11 +0,0 @@
    -apiVersion: v1
    -data:
    -  x: "1"
    -kind: ConfigMap
    -metadata:
    -  annotations:
    -    serin.dev/tracking: default:/ConfigMap:shop/gone
    -  labels:
    -    serin.dev/source: default
    -  name: gone
    -  namespace: shop

    2 to create, 1 to change, 1 to prune, 1 unchanged
    agent shop/support: starts nothing: no matching PromptPack: "pack" has no version 1.0.0 in namespace "shop"; none is published there
    "#);
    assert!(versions() == before, "a diff changes nothing");
    assert!(report.text(Paint::Colors).contains("\u{1b}[31m-  x: "), "{}", report.text(Paint::Colors));
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["summary"]["create"], 2);
    let changed = &json["objects"][0];
    assert_eq!(changed["object"], "ConfigMap shop/changed");
    assert_eq!(
        (&changed["action"], &changed["file"], &changed["line"]),
        (&json!("change"), &json!("changed.yaml"), &json!(3))
    );
}

#[tokio::test]
async fn what_the_server_refuses_is_named_with_its_place_and_the_rest_goes_on() {
    let scene = Scene::new();
    scene.write("maps.yaml", &format!("{}---\n{}", map("bad", "1"), map("good", "1")));
    scene.cluster.set_admission(Box::new(|object| {
        if object.name() == "bad" { Err("data.x: one is\n not enough".to_owned()) } else { Ok(()) }
    }));
    scene.cluster.stop_serving(&Kind::AGENT_RUNTIME);
    scene.write("agent.yaml", AGENT);
    let report = scene.diff().await;
    assert_eq!(report.status(), ExitStatus::Findings);
    assert_snapshot!(report.text(Paint::Plain), @r#"
    refused ConfigMap shop/bad  maps.yaml:1
      the server refuses it: data.x: one is not enough

    create ConfigMap shop/good  maps.yaml:9
    @@ -0,0 +1,11 @@
    +apiVersion: v1
    +data:
    +  x: "1"
    +kind: ConfigMap
    +metadata:
    +  annotations:
    +    serin.dev/tracking: default:/ConfigMap:shop/good
    +  labels:
    +    serin.dev/source: default
    +  name: good
    +  namespace: shop

    refused AgentRuntime shop/support  agent.yaml:1
      the cluster does not serve AgentRuntime.omnia.altairalabs.ai: is its CRD installed?

    1 to create, 0 to change, 0 to prune, 0 unchanged, 2 refused
    "#);
}

#[tokio::test]
async fn values_of_a_secret_are_never_shown() {
    let mut scene = Scene::new();
    scene.args.grants.allow_kind = vec!["Secret".to_owned()];
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop}}\nstringData: {{key: {value}}}\n")
    };
    scene.write("secret.yaml", &secret("hush1"));
    scene.sync().await;
    scene.write("secret.yaml", &secret("hush2"));
    let text = scene.diff().await.text(Paint::Plain);
    assert!(text.contains("-  key: \"*** (before)\"\n+  key: \"*** (after)\""), "{text}");
    assert!(!text.contains("hush"), "{text}");
    scene.cluster.set_admission(Box::new(|object| {
        Err(format!("what is {}?", object.text("/stringData/key").unwrap_or_default()))
    }));
    let report = scene.diff().await;
    assert_eq!(report.summary.refused, 1);
    assert!(!report.text(Paint::Plain).contains("hush"), "{}", report.text(Paint::Plain));
    // Even the line of a file that is broken.
    scene.write("secret.yaml", &secret("hush1").replace("metadata:", "mtadata: hush2\nmetadata:"));
    let wanted = scene.wanted().await.unwrap();
    assert!(wanted.loaded.desired.problems.iter().all(|problem| !told(problem).contains("hush")));
    // And where it is broken so that it has no object.
    scene.write("secret.yaml", "kind: &k Secret\nstringData: { key: 'hush3 }\n");
    scene.write("secret.json", "{\"kind\": \"Secret\", \"stringData\": {\"key\": hush4}}\n");
    let wanted = scene.wanted().await.unwrap();
    assert_eq!(wanted.loaded.desired.problems.len(), 2);
    assert!(wanted.loaded.desired.problems.iter().all(|problem| !told(problem).contains("hush")));
}

#[tokio::test]
async fn an_object_of_another_source_is_refused_and_not_taken_over() {
    let mut scene = Scene::new();
    scene.write("a.yaml", &map("a", "1"));
    scene.sync().await;
    scene.args.source = Some("other".to_owned());
    scene.write("a.yaml", &map("a", "2"));
    let report = scene.diff().await;
    assert_snapshot!(report.text(Paint::Plain), @r"
    refused ConfigMap shop/a  a.yaml:1
      ConfigMap shop/a belongs to the source default, which is not in the settings: with `adoptFrom: [default]`, other takes it over

    note: the files of another source are compared as that one with --source NAME
    0 to create, 0 to change, 0 to prune, 0 unchanged, 1 refused
    ");
}

#[tokio::test]
async fn a_link_in_the_working_tree_suspends_pruning_as_it_does_in_a_commit() {
    let mut scene = Scene::new();
    scene.write("a.yaml", &map("a", "1"));
    scene.write("b.yaml", &map("b", "1"));
    scene.sync().await;
    scene.remove("a.yaml");
    std::os::unix::fs::symlink("b.yaml", scene.folder.path().join("a.yaml")).unwrap();
    let in_files = scene.diff().await;
    assert_snapshot!(in_files.text(Paint::Plain), @r"
    note: ConfigMap shop/a is not in the files and is not pruned now: a file cannot be read, so what is in it is not known
    0 to create, 0 to change, 0 to prune, 1 unchanged, 1 problem in the manifests
    ");
    // The same files as a commit.
    let git = git2::Repository::init(scene.folder.path()).unwrap();
    let mut index = git.index().unwrap();
    index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
    index.write().unwrap();
    let tree = git.find_tree(index.write_tree().unwrap()).unwrap();
    let who = git2::Signature::new("Ann", "ann@example.com", &git2::Time::new(60, 0)).unwrap();
    git.commit(Some("HEAD"), &who, &who, "x", &tree, &[]).unwrap();
    scene.args.revision = Some("HEAD".to_owned());
    assert_eq!(scene.diff().await.text(Paint::Plain), in_files.text(Paint::Plain));
}

#[tokio::test]
async fn a_file_that_cannot_be_read_suspends_pruning_and_is_a_finding() {
    let scene = Scene::new();
    scene.write("a.yaml", &map("a", "1"));
    scene.sync().await;
    scene.write("a.yaml", "a: [\n");
    let report = scene.diff().await;
    assert_eq!(report.status(), ExitStatus::Findings);
    assert_snapshot!(report.text(Paint::Plain), @r"
    note: ConfigMap shop/a is not in the files and is not pruned now: a file cannot be read, so what is in it is not known
    0 to create, 0 to change, 0 to prune, 0 unchanged, 1 problem in the manifests
    ");
}

#[tokio::test]
async fn what_others_added_to_an_agent_is_taken_back() {
    let scene = Scene::new();
    scene.write("agent.yaml", AGENT);
    scene.sync().await;
    let key = ObjectKey::new(Kind::AGENT_RUNTIME, "shop", "support");
    let added = json!({"promptPackRef": {"name": "pack", "version": "0.9.0"}});
    scene.cluster.edit("a-person", &key, |agent| agent.set(&["spec", "rollout", "candidate"], added)).unwrap();
    let report = scene.diff().await;
    assert_eq!((report.summary.change, report.summary.unchanged), (1, 0));
    assert!(report.objects[0].diff.contains("-        version: \"0.9.0\""), "{}", report.objects[0].diff);
}

#[tokio::test]
async fn what_is_being_deleted_is_told() {
    let scene = Scene::new();
    scene.write("a.yaml", &map("a", "1"));
    scene.sync().await;
    let key = ObjectKey::new(Kind::CONFIG_MAP, "shop", "a");
    scene.cluster.edit("a-person", &key, |object| object.set(&["metadata", "finalizers"], json!(["x/y"]))).unwrap();
    scene.cluster.delete_by_hand("a-person", &key);
    let report = scene.diff().await;
    let told = "ConfigMap shop/a is being deleted, and is created again when it is gone";
    assert_eq!(report.notes, [told]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_about_one_object_leaves_it_unknown() {
    use crate::cluster::simulated::{Fate, Verb};
    let scene = Scene::new();
    scene.write("a.yaml", &map("a", "1"));
    scene.write("b.yaml", &map("b", "1"));
    let mut slow = 1;
    scene.cluster.inject(Box::new(move |call| match (call.verb, call.key.name.as_str()) {
        (Verb::Preview, "a") => Fate::FailBefore(ClusterError::Forbidden {
            verb: "patch",
            kind: Kind::CONFIG_MAP,
            namespace: "shop".into(),
            why: "no".into(),
        }),
        (Verb::Preview, "b") if slow > 0 => {
            slow -= 1;
            Fate::FailBefore(ClusterError::TooManyRequests { retry_after: Some(Duration::ZERO) })
        }
        _ => Fate::Proceed,
    }));
    let report = scene.diff().await;
    assert_eq!((report.summary.unknown, report.summary.create), (1, 1));
    assert_eq!(report.status(), ExitStatus::Unavailable);
    let reason = report.objects[0].reason.as_deref();
    assert_eq!(reason, Some("not allowed to patch ConfigMap in namespace \"shop\": no"));
}

#[tokio::test]
async fn without_the_right_to_list_everywhere_the_namespaces_of_the_manifests_are_looked_through() {
    use crate::cluster::simulated::{Fate, Verb};
    let scene = Scene::new();
    scene.write("a.yaml", &map("a", "1"));
    scene.sync().await;
    scene.cluster.inject(Box::new(|call| match (call.verb, call.key.namespace.as_str()) {
        (Verb::List, "") => Fate::FailBefore(ClusterError::Forbidden {
            verb: "list",
            kind: call.key.kind.clone(),
            namespace: String::new(),
            why: "no".into(),
        }),
        _ => Fate::Proceed,
    }));
    let report = scene.diff().await;
    assert_eq!((report.summary.unchanged, report.status()), (1, ExitStatus::Ok));
    assert!(report.notes.iter().any(|note| note.starts_with("you may not list ConfigMap in all namespaces")));
}

#[tokio::test]
async fn flags_that_do_not_fit_are_refused_with_a_hint() {
    let scene = Scene::new();
    let file = scene.folder.path().join("serin.yaml");
    std::fs::write(&file, "sources:\n- {name: agents, repo: /a}\n- {name: packs, repo: /b}\n").unwrap();
    let config = file.to_str().map(str::to_owned);
    let folder = scene.args.folder.clone();
    let refused = async |args: DiffArgs| {
        let failure = Wanted::read(args, &TypedAs::default(), &Environment::default()).await.err().unwrap();
        (failure.status(), failure.text().to_owned())
    };
    let usage = |text: &str| (ExitStatus::Usage, text.to_owned());
    let both = DiffArgs { folder: folder.clone(), repo: Some("/a".into()), ..DiffArgs::default() };
    assert_eq!(refused(both).await, usage("a folder and --repo are two places to compare: say one of them"));
    let several = DiffArgs { folder: folder.clone(), config: config.clone(), ..DiffArgs::default() };
    assert_eq!(
        refused(several.clone()).await,
        usage("there are several sources: say --source with one of agents, packs")
    );
    let misspelt = DiffArgs { source: Some("agent".into()), ..several };
    assert_eq!(
        refused(misspelt).await,
        usage("--source: the settings have no source agent\n  hint: did you mean agents?")
    );
    let unfit = DiffArgs { folder, source: Some("A b".into()), ..DiffArgs::default() };
    assert_eq!(refused(unfit).await, usage("--source: \"A b\" is no name of a source"));
    let nowhere = DiffArgs { folder: Some("/not/there".into()), ..DiffArgs::default() };
    assert_eq!(refused(nowhere).await.0, ExitStatus::NotFound);
}

#[tokio::test]
async fn a_source_of_the_settings_file_lends_its_folder_and_its_rules_to_the_clone() {
    let scene = Scene::new();
    let clone = scene.folder.path();
    init(clone);
    std::fs::create_dir_all(clone.join("clusters/prod")).unwrap();
    scene.write("clusters/prod/a.yaml", &map("a", "1"));
    scene.write("b.yaml", &map("b", "1"));
    let file = clone.join("settings");
    std::fs::write(&file, "sources: [{name: packs, repo: 'https://h/x', path: clusters/prod, namespaces: [shop]}]\n")
        .unwrap();
    let args = DiffArgs {
        config: file.to_str().map(str::to_owned),
        folder: clone.join("clusters").to_str().map(str::to_owned),
        ..DiffArgs::default()
    };
    let wanted = Wanted::read(args.clone(), &TypedAs::default(), &Environment::default()).await.unwrap();
    assert_eq!(wanted.source.name.as_str(), "packs");
    let keys: Vec<&str> = wanted.loaded.desired.objects.keys().map(|key| key.name.as_str()).collect();
    assert_eq!(keys, ["a"]);
    // The daemon's secrets are not on this machine.
    let text = std::fs::read_to_string(&file).unwrap();
    let credentials =
        "https://h/x', credentials: {tokenFile: /not/there, caFile: /not/there}, webhook: {secretEnv: NOT_SET}";
    std::fs::write(&file, text.replace("https://h/x'", credentials)).unwrap();
    let wanted = Wanted::read(args.clone(), &TypedAs::default(), &Environment::default()).await.unwrap();
    assert_eq!(wanted.source.access, crate::git::Access::default());
    let remote = DiffArgs { folder: None, ..args };
    let failure = Wanted::read(remote, &TypedAs::default(), &Environment::default()).await.err().unwrap();
    assert!(failure.text().contains("the file /not/there cannot be read"), "{}", failure.text());
    // Without a file, the folder itself is compared.
    let args = DiffArgs { folder: clone.join("clusters").to_str().map(str::to_owned), ..DiffArgs::default() };
    let wanted = Wanted::read(args, &TypedAs::default(), &Environment::default()).await.unwrap();
    let files: Vec<&str> = wanted.loaded.snapshot.files.keys().map(|path| path.as_str()).collect();
    assert_eq!(files, ["clusters/prod/a.yaml"]);
    assert_eq!(wanted.place, format!("clusters in the working tree of {}", clone.canonicalize().unwrap().display()));
}

/// A repository, by the git command line: only `git` names the library.
fn init(folder: &std::path::Path) {
    let made = std::process::Command::new("git").args(["init", "-q"]).arg(folder).status().unwrap();
    assert!(made.success());
}
