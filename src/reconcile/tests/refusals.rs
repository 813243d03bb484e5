//! One thing that is refused, or does not answer, holds up no other.

use super::*;
use crate::cluster::simulated::PartOf;

const STEPS: &str = "[{setWeight: 100}]";

/// The manifest of another agent of the bench.
fn named(name: &str, candidate: &str) -> String {
    agent(candidate, STEPS).replace("name: agent\n", &format!("name: {name}\n"))
}

impl Bench {
    /// With agents of these names, whose candidates are on their way to be promoted with nothing in git.
    fn promoting(names: &[&str]) -> Self {
        let mut bench = Self::new(STEPS);
        for candidate in ["", "2.0.0"] {
            for name in names {
                bench.write(&format!("prod/{name}.yaml"), &named(name, candidate));
            }
            bench.fetch();
            if candidate.is_empty() {
                bench.run_for(20);
            }
        }
        bench
    }

    fn message_of(&self, name: &str) -> String {
        let live = self.cluster.live(&ObjectKey::agent(&AgentKey::new("prod", name))).unwrap();
        live.text("/status/rollout/message").unwrap_or_default().to_owned()
    }
}

#[test]
fn a_decision_that_the_git_server_refuses_holds_up_no_other_and_goes_when_it_is_allowed() {
    let mut bench = Bench::promoting(&["a", "b", "c", "d"]);
    bench.repository.refuse_changes_of("prod/b.yaml");
    bench.run_for(40);
    assert_eq!(bench.promotions(), 3);
    assert!(bench.message_of("b").contains("prod/b.yaml is protected"), "{}", bench.message_of("b"));
    bench.repository.allow_all_changes();
    bench.run_for(90);
    assert_eq!(bench.promotions(), 4);
}

#[test]
fn a_git_server_that_refuses_everything_is_not_asked_for_each_decision() {
    let names: Vec<String> = (0..30).map(|i| format!("agent-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::promoting(&names);
    let pushes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&pushes);
    bench.repository.decide_fates(move |call| {
        if let simulated::Call::Publish(branch) = call
            && branch.as_str() == "main"
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        simulated::Fate::Proceed
    });
    bench.repository.refuse_pushes(Some("the branch is protected"));
    bench.run_for(200);
    let asked = pushes.load(Ordering::Relaxed);
    assert!(asked <= 5 * 8, "{asked}");
    bench.repository.refuse_pushes(None);
    bench.run_for(120);
    assert_eq!(bench.promotions(), 30);
}

#[test]
fn a_deletion_that_is_not_answered_holds_up_neither_the_agents_nor_other_deletions() {
    let mut bench = Bench::alone(STEPS);
    bench.write("prod/notes.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes, namespace: prod}\n");
    bench.run_for(20);
    let is_there =
        |bench: &Bench, kind: Kind, name: &str| bench.cluster.live(&ObjectKey::new(kind, "prod", name)).is_some();
    assert!(is_there(&bench, Kind::CONFIG_MAP, "notes"));
    bench.cluster.inject(Box::new(|call| {
        if call.key.kind == Kind::PROMPT_PACK && matches!(call.verb, Verb::Delete) {
            return Fate::FailBefore(ClusterError::Unavailable { why: "500: failed calling webhook".into() });
        }
        Fate::Proceed
    }));
    let gone = ["prod/pack-3.0.0.yaml", "prod/notes.yaml"].map(|path| (TreePath::new(path), None));
    let manifest = (TreePath::new(AGENT), Some(agent("2.0.0", STEPS).into_bytes()));
    let edits = gone.into_iter().chain([manifest]).collect();
    bench.repository.person("A Person").commit(&bench.branch, edits, "less of all");
    bench.fetch();
    bench.run_for(60);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
    let left = (is_there(&bench, Kind::CONFIG_MAP, "notes"), is_there(&bench, Kind::PROMPT_PACK, "pack-3-0-0"));
    assert_eq!(left, (false, true));
    bench.cluster.heal();
    bench.run_for(60);
    assert!(!is_there(&bench, Kind::PROMPT_PACK, "pack-3-0-0"));
}

#[test]
fn what_a_commit_brings_back_while_it_is_being_pruned_stays() {
    let mut bench = Bench::alone(STEPS);
    let notes = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: prod}}\n");
    let names = ["a", "b", "c"];
    for name in names {
        bench.write(&format!("prod/{name}.yaml"), &notes(name));
    }
    bench.run_for(20);
    let uid = |bench: &Bench, name: &str| {
        bench.cluster.live(&ObjectKey::new(Kind::CONFIG_MAP, "prod", name)).and_then(|live| live.uid())
    };
    let before: Vec<_> = names.iter().map(|name| uid(&bench, name)).collect();
    let edit = |contents: &dyn Fn(&str) -> Option<Vec<u8>>| {
        names.iter().map(|name| (TreePath::new(format!("prod/{name}.yaml")), contents(name))).collect()
    };
    bench.repository.person("A Person").commit(&bench.branch, edit(&|_| None), "away with them");
    // The revert is pushed and fetched while the first of them is being deleted.
    let (repository, branch) = (bench.repository.clone(), bench.branch.clone());
    let source = Arc::clone(bench.core.sources().next().unwrap());
    let back = edit(&|name| Some(notes(name).into_bytes()));
    let is_reverted = AtomicBool::new(false);
    bench.cluster.inject(Box::new(move |call| {
        if matches!(call.verb, Verb::Delete) && !is_reverted.swap(true, Ordering::Relaxed) {
            repository.person("A Person").commit(&branch, back.clone(), "not so");
            let tip = source.repository.fetch().now_or_never().unwrap().unwrap();
            source.load(&tip).now_or_never().unwrap().unwrap();
        }
        Fate::Proceed
    }));
    bench.fetch();
    bench.run_for(60);
    let after: Vec<_> = names.iter().map(|name| uid(&bench, name)).collect();
    assert!(after.iter().all(Option::is_some));
    assert_eq!(before.iter().zip(&after).filter(|(before, after)| before != after).count(), 1);
}

#[test]
fn a_decision_of_a_pass_that_fails_reaches_git_all_the_same() {
    let mut bench = Bench::new(STEPS);
    bench.run_for(20);
    // Each first try to write a status fails, also that of the pass which decides.
    let tries = std::sync::atomic::AtomicUsize::new(0);
    bench.cluster.inject(Box::new(move |call| {
        let is_status = call.key.kind == Kind::AGENT_RUNTIME && matches!(call.verb, Verb::Apply(_, PartOf::Status));
        if is_status && tries.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return Fate::FailBefore(ClusterError::TooManyRequests { retry_after: None });
        }
        Fate::Proceed
    }));
    bench.write(AGENT, &agent("2.0.0", STEPS));
    bench.fetch();
    bench.run_for(120);
    assert_eq!((bench.promotions(), bench.version().as_str()), (1, "2.0.0"));
}
