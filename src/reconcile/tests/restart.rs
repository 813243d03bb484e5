//! What a restart must not lose, though it is only for people.

use super::bench::STATUS;
use super::*;

const STEPS: &str = "[{setWeight: 50}, {pause: {duration: 30s}}, {setWeight: 100}]";

impl Bench {
    fn on_status_branch(&self) -> BTreeMap<TreePath, Arc<[u8]>> {
        self.repository.files(&self.repository.tip(&BranchName::new(STATUS)).unwrap())
    }

    fn history_file(&self) -> String {
        let files = self.on_status_branch();
        let mut histories = files.iter().filter(|(path, _)| path.as_str().contains("/history/"));
        let (_, text) = histories.next().expect("a history");
        assert!(histories.next().is_none());
        String::from_utf8_lossy(text).into_owned()
    }
}

#[test]
fn the_status_of_an_agent_that_cannot_be_looked_at_after_a_restart_stays_on_the_branch() {
    let mut bench = Bench::new(STEPS);
    bench.write("prod/other.yaml", &agent("", STEPS).replace("name: agent\n", "name: other\n"));
    bench.run_for(30);
    let files: Vec<TreePath> = bench.on_status_branch().into_keys().collect();
    assert!(files.contains(&TreePath::new("prod/other/status.yaml")), "{files:?}");
    // Its pass has to write, and cannot.
    let key = ObjectKey::agent(&AgentKey::new("prod", "other"));
    bench.cluster.edit("kubectl", &key, |live| live.set(&["spec", "runtime", "replicas"], 5)).unwrap();
    bench.cluster.inject(Box::new(|call| {
        if call.key.name.starts_with("other") && matches!(call.verb, Verb::Apply(..)) {
            return Fate::FailBefore(ClusterError::Unavailable { why: "no answer".into() });
        }
        Fate::Proceed
    }));
    bench.restart();
    bench.run_for(10);
    assert_eq!(bench.on_status_branch().into_keys().collect::<Vec<_>>(), files);
    bench.run_for(60);
    assert_eq!(bench.on_status_branch().into_keys().collect::<Vec<_>>(), files);
}

#[test]
fn an_agent_whose_file_cannot_be_read_any_more_stays_on_the_branch_and_says_why() {
    let mut bench = Bench::new(STEPS);
    bench.run_for(30);
    bench.write(AGENT, "spec: [");
    bench.fetch();
    bench.run_for(30);
    let files = bench.on_status_branch();
    let status = String::from_utf8_lossy(&files[&TreePath::new("prod/agent/status.yaml")]).into_owned();
    assert!(status.contains("ManifestInvalid") && status.contains("prod/agent.yaml"), "{status}");
    // It is told once more when the file is mended.
    bench.write(AGENT, &agent("", STEPS));
    bench.fetch();
    bench.run_for(30);
    let files = bench.on_status_branch();
    assert!(!String::from_utf8_lossy(&files[&TreePath::new("prod/agent/status.yaml")]).contains("ManifestInvalid"));
}

#[test]
fn the_history_of_a_rollout_goes_on_after_a_restart_where_it_was() {
    let mut bench = Bench::new(STEPS);
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", STEPS));
    bench.fetch();
    bench.run_for(15);
    let before = bench.history_file();
    assert!(before.contains("RolloutStarted"), "{before}");
    bench.restart();
    // The branch is read before anything happens to the rollout again.
    bench.run_for(10);
    bench.run_for(90);
    let after = bench.history_file();
    let started = before.lines().find(|line| line.starts_with("startedAt")).unwrap();
    assert!(
        after.contains(started) && after.contains("RolloutStarted") && after.contains("RolloutPromoted"),
        "{after}"
    );
}

#[test]
fn what_was_written_change_by_change_is_what_a_newcomer_would_write() {
    let mut bench = Bench::new(STEPS);
    let named =
        |name: &str, candidate: &str| agent(candidate, STEPS).replace("name: agent\n", &format!("name: {name}\n"));
    // What the other source holds is known too, so that what goes may go.
    bench.write("copies/pack.yaml", &pack("copies", "1.0.0"));
    bench.queue.wake(Key::Fetch(SourceName::new("copies")));
    for name in ["kept", "rolls", "goes", "goes-and-returns"] {
        bench.write(&format!("prod/{name}.yaml"), &named(name, ""));
    }
    bench.run_for(30);
    let remove = |bench: &Bench, name: &str| {
        let gone = [(TreePath::new(format!("prod/{name}.yaml")), None)].into();
        bench.repository.person("A Person").commit(&bench.branch, gone, "take it away");
    };
    bench.write("prod/rolls.yaml", &named("rolls", "2.0.0"));
    bench.write(AGENT, "spec: [");
    bench.fetch();
    bench.run_for(20);
    bench.write(AGENT, &agent("", STEPS));
    remove(&bench, "goes");
    remove(&bench, "goes-and-returns");
    bench.fetch();
    bench.run_for(20);
    assert!(!bench.on_status_branch().contains_key(&TreePath::new("prod/goes-and-returns/status.yaml")));
    bench.write("prod/goes-and-returns.yaml", &named("goes-and-returns", ""));
    bench.fetch();
    bench.run_for(120);
    bench.write("prod/rolls.yaml", &named("rolls", "3.0.0"));
    bench.fetch();
    bench.run_for(120);
    let before = bench.on_status_branch();
    let names: Vec<&str> = before.keys().filter_map(|path| path.as_str().strip_suffix("/status.yaml")).collect();
    assert_eq!(names, ["prod/agent", "prod/goes-and-returns", "prod/kept", "prod/rolls"]);
    assert_eq!(before.keys().filter(|path| path.as_str().starts_with("prod/rolls/history/")).count(), 2);
    let tip = bench.repository.tip(&BranchName::new(STATUS));
    bench.restart();
    bench.run_for(60);
    let after = bench.on_status_branch();
    for path in before.keys() {
        let text = |files: &BTreeMap<TreePath, Arc<[u8]>>| {
            files.get(path).map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
        };
        assert_eq!(text(&after), text(&before), "{path}");
    }
    assert_eq!(bench.repository.tip(&BranchName::new(STATUS)), tip);
}

#[test]
fn two_sources_of_one_repository_write_beside_each_other_to_one_status_branch() {
    let mut bench = Bench::new(STEPS);
    bench.write("copies/other.yaml", &agent("", STEPS).replace("name: agent\n", "name: other\n"));
    bench.queue.wake(Key::Fetch(SourceName::new("copies")));
    bench.run_for(30);
    let statuses = |bench: &Bench| {
        let files = bench.on_status_branch();
        files.into_keys().filter(|path| path.as_str().ends_with("/status.yaml")).map(|path| path.to_string()).collect()
    };
    let both: Vec<String> = vec!["prod/agent/status.yaml".to_owned(), "prod/other/status.yaml".to_owned()];
    assert_eq!(statuses(&bench), both);
    let page = bench.on_status_branch()[&TreePath::new("README.md")].clone();
    assert!(String::from_utf8_lossy(&page).contains("2 agents"));
    bench.write(AGENT, &agent("2.0.0", STEPS));
    bench.fetch();
    bench.run_for(10);
    assert_eq!(statuses(&bench), both);
    bench.write("copies/other.yaml", &agent("2.0.0", STEPS).replace("name: agent\n", "name: other\n"));
    bench.queue.wake(Key::Fetch(SourceName::new("copies")));
    bench.run_for(120);
    assert_eq!(statuses(&bench), both);
    let tip = bench.repository.tip(&BranchName::new(STATUS));
    bench.restart();
    bench.run_for(60);
    assert_eq!((statuses(&bench), bench.repository.tip(&BranchName::new(STATUS))), (both.clone(), tip));
    let gone = [
        (TreePath::new("copies/other.yaml"), None),
        (TreePath::new("copies/x.yaml"), Some(pack("copies", "1.0.0").into_bytes())),
    ]
    .into();
    bench.repository.person("A Person").commit(&bench.branch, gone, "take it away");
    bench.fetch();
    bench.queue.wake(Key::Fetch(SourceName::new("copies")));
    bench.run_for(60);
    assert_eq!(statuses(&bench), both[..1]);
}

#[test]
fn the_history_of_a_rollout_is_written_also_where_the_branch_is_gone_after_a_restart() {
    let mut bench = Bench::new(STEPS);
    bench.run_for(20);
    bench.write(AGENT, &agent("2.0.0", STEPS));
    bench.fetch();
    bench.run_for(15);
    bench.repository.person("A Person").delete_branch(&BranchName::new(STATUS));
    bench.restart();
    bench.run_for(120);
    assert!(bench.history_file().contains("RolloutPromoted"));
    let tip = bench.repository.tip(&BranchName::new(STATUS));
    bench.run_for(600);
    assert_eq!(bench.repository.tip(&BranchName::new(STATUS)), tip);
}
