//! Manifests that are not followed, as people see it at the agent.

use super::*;

const STEPS: &str = "[{setWeight: 100}]";

/// Reason and message of what the agent says about git.
fn synced(bench: &Bench) -> Option<(String, String)> {
    let agent = bench.live_agent().unwrap();
    let conditions = agent.at("/status/conditions").unwrap().as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == "Synced")?;
    assert_eq!(found["status"], "False");
    Some((found["reason"].as_str().unwrap().to_owned(), found["message"].as_str().unwrap().to_owned()))
}

fn push(bench: &mut Bench, path: &str, text: &str) {
    bench.write(path, text);
    bench.fetch();
    bench.run_for(10);
}

#[test]
fn an_agent_says_where_its_manifest_is_wrong_until_it_is_mended() {
    let mut bench = Bench::alone(STEPS);
    bench.run_for(20);
    assert_eq!(synced(&bench), None);
    push(&mut bench, AGENT, &agent("", "[{setWeight: 101}]"));
    let (reason, message) = synced(&bench).unwrap();
    assert_eq!(reason, "ManifestInvalid");
    assert!(
        message.starts_with("prod/agent.yaml:") && message.contains("spec.rollout.steps[0].setWeight"),
        "{message}"
    );
    push(&mut bench, AGENT, &agent("", STEPS));
    assert_eq!(synced(&bench), None);
}

#[test]
fn an_agent_whose_file_is_broken_says_that_it_may_be_in_it() {
    let mut bench = Bench::alone(STEPS);
    bench.run_for(20);
    push(&mut bench, AGENT, "a: [\n");
    let (reason, message) = synced(&bench).unwrap();
    assert_eq!(reason, "ManifestInvalid");
    assert!(message.contains("may be in one that cannot: prod/agent.yaml:"), "{message}");
    push(&mut bench, AGENT, &agent("", STEPS));
    assert_eq!(synced(&bench), None);
}

#[test]
fn a_broken_file_of_others_is_nothing_to_an_agent_that_can_be_read() {
    let mut bench = Bench::alone(STEPS);
    bench.run_for(20);
    push(&mut bench, "prod/other.yaml", "a: [\n");
    assert_eq!(synced(&bench), None);
}

#[test]
fn what_the_server_refuses_of_a_manifest_is_said_at_the_agent() {
    let mut bench = Bench::alone(STEPS);
    bench.run_for(20);
    bench.cluster.set_admission(Box::new(|object| {
        let is_wanted = object.text("/spec/rollout/candidate/promptPackRef/version") == Some("2.0.0");
        if is_wanted { Err("not this one".to_owned()) } else { Ok(()) }
    }));
    push(&mut bench, AGENT, &agent("2.0.0", STEPS));
    let (reason, message) = synced(&bench).unwrap();
    assert_eq!(reason, "ManifestRefused");
    assert!(message.contains("not this one"), "{message}");
    push(&mut bench, AGENT, &agent("", STEPS));
    assert_eq!(synced(&bench), None, "the object is what git says again, without a write");
}

#[test]
fn what_an_agent_says_about_git_does_not_flap_at_a_restart() {
    let mut bench = Bench::alone(STEPS);
    bench.run_for(20);
    push(&mut bench, AGENT, &agent("", "[{setWeight: 101}]"));
    let said = bench.live_agent().unwrap();
    // As after a restart: nothing is loaded, and git does not answer.
    bench.core.start_over();
    bench.repository.decide_fates(|_| {
        simulated::Fate::FailBefore(RepositoryError::Unreachable { address: "git".into(), why: "gone".into() })
    });
    let keys = bench.core.first_keys().now_or_never().unwrap().unwrap();
    keys.into_iter().for_each(|key| bench.queue.wake(key));
    bench.run_for(30);
    assert_eq!(bench.live_agent().unwrap(), said);
    bench.repository.clear_fates();
    bench.run_for(60);
    assert_eq!(bench.live_agent().unwrap(), said);
    push(&mut bench, AGENT, &agent("", STEPS));
    assert_eq!(synced(&bench), None);
}
