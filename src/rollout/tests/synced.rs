//! That people see at an agent why it is not what git says.

use serde_json::{Value, json};

use super::Bench;
use crate::rollout::SYNCED;
use crate::rollout::verdict::Effect;
use crate::rollout::world::{ManifestStanding, Origin};

const WHY: &str = "agent.yaml:14:9: spec.rollout.steps[0].setWeight: must be at most 100";

fn stand(bench: &mut Bench, standing: ManifestStanding) {
    let Origin::Git(git) = &mut bench.world.origin else { panic!("not from git") };
    git.standing = standing;
}

fn synced(bench: &Bench) -> Option<Value> {
    bench.status("/conditions").as_array().unwrap().iter().find(|condition| condition["type"] == SYNCED).cloned()
}

fn resting() -> Bench {
    let mut bench = Bench::new(json!({"steps": [{"setWeight": 50}]}));
    bench.run();
    assert_eq!(synced(&bench), None);
    bench
}

#[test]
fn a_manifest_that_cannot_be_used_is_said_until_it_can() {
    let mut bench = resting();
    stand(&mut bench, ManifestStanding::Invalid(WHY.to_owned()));
    assert!(matches!(&bench.pass().effects[..], [Effect::Apply(_)]), "people wait for it");
    let said = synced(&bench).unwrap();
    assert_eq!(
        (&said["status"], &said["reason"], &said["message"]),
        (&json!("False"), &json!("ManifestInvalid"), &json!(WHY))
    );
    assert_eq!(bench.pass().effects, []);
    assert_eq!(bench.status("/phase"), "Running", "what runs goes on");
    stand(&mut bench, ManifestStanding::Fine);
    bench.settle();
    assert_eq!(synced(&bench), None);
}

#[test]
fn a_manifest_that_the_server_refuses_is_said_too() {
    let mut bench = resting();
    stand(&mut bench, ManifestStanding::Refused("denied".to_owned()));
    bench.settle();
    assert_eq!(bench.condition(SYNCED), ("False".to_owned(), "ManifestRefused".to_owned()));
}

#[test]
fn what_was_said_stays_until_git_is_read_again() {
    for (standing, reason) in [
        (ManifestStanding::Invalid(WHY.to_owned()), "ManifestInvalid"),
        (ManifestStanding::Refused(WHY.to_owned()), "ManifestRefused"),
    ] {
        let mut bench = resting();
        stand(&mut bench, standing);
        bench.settle();
        stand(&mut bench, ManifestStanding::Unread);
        bench.advance(60);
        assert_eq!(bench.pass().effects, []);
        assert_eq!(synced(&bench).unwrap()["reason"], reason);
    }
    let mut bench = resting();
    stand(&mut bench, ManifestStanding::Unread);
    assert_eq!(bench.pass().effects, [], "nothing is made up");
}

#[test]
fn an_agent_that_is_in_no_repository_has_no_such_condition() {
    let mut bench = resting().by_hand();
    assert_eq!(bench.pass().effects, []);
}

#[test]
fn an_agent_whose_live_spec_cannot_be_used_says_both() {
    let mut bench = resting();
    stand(&mut bench, ManifestStanding::Invalid(WHY.to_owned()));
    bench.edit_spec(|spec| spec["rollout"]["steps"] = json!([{"setWeight": 101}]));
    bench.settle();
    assert_eq!(bench.condition("RolloutActive").1, "InvalidSpec");
    assert_eq!(bench.condition(SYNCED).1, "ManifestInvalid");
}
