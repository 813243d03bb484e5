//! The sync of a change alone, where something else happens meanwhile.

use super::*;

fn main_source(bench: &Bench) -> Arc<Source> {
    Arc::clone(&bench.core.sources[&SourceName::new("main")])
}

fn pack_key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::PROMPT_PACK, "prod", name)
}

fn remove(bench: &Bench, paths: &[&str]) {
    let gone = paths.iter().map(|path| (TreePath::new(*path), None)).collect();
    bench.repository.person("A Person").commit(&bench.branch, gone, "take it away");
}

#[test]
fn what_a_sync_that_failed_has_applied_is_pruned_by_the_next_if_git_has_it_no_more() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    bench.cluster.inject(Box::new(|call| {
        if call.key.name == "pack-5-0-0" && matches!(call.verb, Verb::Apply(..)) {
            return Fate::FailBefore(ClusterError::Unavailable { why: "503".into() });
        }
        Fate::Proceed
    }));
    bench.write("prod/pack-4.0.0.yaml", &pack("prod", "4.0.0"));
    bench.write("prod/pack-5.0.0.yaml", &pack("prod", "5.0.0"));
    bench.fetch();
    bench.run_for(5);
    assert!(bench.cluster.live(&pack_key("pack-4-0-0")).is_some());
    bench.cluster.heal();
    remove(&bench, &["prod/pack-4.0.0.yaml", "prod/pack-5.0.0.yaml"]);
    bench.fetch();
    bench.run_for(20);
    assert!(bench.cluster.live(&pack_key("pack-4-0-0")).is_none());
}

#[test]
fn an_object_whose_drift_the_server_does_not_let_undo_is_tried_again_soon() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    bench.cluster.inject(Box::new(|call| {
        if call.key.kind != Kind::PROMPT_PACK || !matches!(call.verb, Verb::Apply(..)) {
            return Fate::Proceed;
        }
        let (kind, namespace) = (Kind::PROMPT_PACK, call.key.namespace.clone());
        Fate::FailBefore(ClusterError::Forbidden { verb: "patch", kind, namespace, why: "RBAC".to_owned() })
    }));
    bench.cluster.delete_by_hand("kubectl", &pack_key("pack-3-0-0"));
    bench.follow();
    bench.run_for(5);
    bench.cluster.heal();
    bench.run_for(60);
    assert!(bench.cluster.live(&pack_key("pack-3-0-0")).is_some());
}

#[test]
fn what_comes_back_after_git_has_dropped_it_is_pruned_again_at_once() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    let before = bench.cluster.live(&pack_key("pack-3-0-0")).unwrap();
    remove(&bench, &["prod/pack-3.0.0.yaml"]);
    bench.fetch();
    bench.run_for(5);
    assert!(bench.cluster.live(&pack_key("pack-3-0-0")).is_none());
    // A pass that has read git before that, a backup that is restored.
    let mut copy = Object::bare(&pack_key("pack-3-0-0"));
    copy.set(&["spec"], before.at("/spec").cloned().unwrap());
    for (map, name) in
        [("labels", crate::api::names::SOURCE_LABEL), ("annotations", crate::api::names::TRACKING_ANNOTATION)]
    {
        let value = before.at("/metadata").unwrap()[map][name].clone();
        copy.set(&["metadata", map, name], value);
    }
    bench.cluster.create("velero", &copy).unwrap();
    bench.follow();
    bench.run_for(5);
    assert!(bench.cluster.live(&pack_key("pack-3-0-0")).is_none());
    // What is nobody's stays.
    copy.set(&["metadata", "annotations", crate::api::names::TRACKING_ANNOTATION], "else:x/y:z/w");
    bench.cluster.create("kubectl", &copy).unwrap();
    bench.follow();
    bench.run_for(5);
    assert!(bench.cluster.live(&pack_key("pack-3-0-0")).is_some());
}

#[test]
fn a_fetch_does_not_run_beside_a_publication_of_the_same_source() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    let source = main_source(&bench);
    let publication = source.ask().now_or_never().unwrap();
    bench.write("prod/pack-4.0.0.yaml", &pack("prod", "4.0.0"));
    let (leading, key) = (Leading::alone(), Key::Fetch(SourceName::new("main")));
    let mut fetch = Box::pin(bench.core.run(&leading, &key));
    assert!(fetch.as_mut().now_or_never().is_none());
    drop(publication);
    assert!(fetch.now_or_never().unwrap().is_ok());
}

#[test]
fn what_began_before_another_serin_led_is_of_no_account() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    let source = main_source(&bench);
    let before = source.loaded().unwrap();
    let syncing = source.sync_begins();
    {
        let asking = source.ask().now_or_never().unwrap();
        bench.core.start_over();
        assert!(source.load_answer(&asking, &before.commit).now_or_never().unwrap().is_ok());
    }
    assert!(source.loaded().is_none(), "the branch may have moved since it was asked");
    source.sync_finished(&syncing, &before, true);
    assert!(!source.has_synced() && source.sync_begins().before.is_none());
}

#[test]
fn a_sync_of_everything_that_is_asked_for_during_a_sync_is_not_forgotten() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    let source = main_source(&bench);
    let loaded = source.loaded().unwrap();
    let syncing = source.sync_begins();
    source.sync_whole_next();
    source.sync_finished(&syncing, &loaded, true);
    assert!(source.has_synced() && source.sync_begins().before.is_none());
}

#[test]
fn a_commit_that_is_fetched_and_not_loaded_yet_does_not_say_what_its_source_holds() {
    let mut bench = Bench::alone("[{setWeight: 100}]");
    bench.run_for(20);
    let source = main_source(&bench);
    assert!(source.was_asked());
    bench.core.start_over();
    let tip = source.fetch(bench.clock.now()).now_or_never().unwrap().unwrap();
    source.fetch_succeeded(&tip);
    assert!(!source.was_asked(), "other sources still wait for what it holds");
    let unknown = CommitSha::new("0000000000000000000000000000000000000000");
    assert!(source.load(&unknown).now_or_never().unwrap().is_err());
    assert!(source.was_asked(), "they do not wait for what cannot be read");
    bench.core.start_over();
    assert!(!source.was_asked());
    source.load(&tip).now_or_never().unwrap().unwrap();
    assert!(source.was_asked());
}
