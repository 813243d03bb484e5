//! What counts as a difference, and what is the server's own doing.

use serde_json::{Value, json};

use crate::apply::{Difference, difference, is_same_but_status};
use crate::cluster::{FieldManager, Part};
use crate::object::Object;

fn agent(spec: Value) -> Object {
    object(json!({"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime", "spec": spec}))
}

fn pod(spec: Value) -> Object {
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": spec}}}))
}

fn object(mut value: Value) -> Object {
    let metadata = value.as_object_mut().unwrap().entry("metadata").or_insert(json!({}));
    metadata["name"] = "a".into();
    Object::from_value(value).unwrap()
}

/// `live` with entries `(manager, operation, fieldsV1)`.
fn owned(mut live: Object, entries: &[(&str, &str, Value)]) -> Object {
    let entries: Vec<Value> = entries
        .iter()
        .map(|(manager, operation, fields)| json!({"manager": manager, "operation": operation, "fieldsV1": fields}))
        .collect();
    live.set(&["metadata", "managedFields"], entries);
    live
}

fn changes(desired: &Object, live: &Object) -> Vec<String> {
    match difference(desired, Some(live), FieldManager::Sync, Part::Main) {
        Difference::Create => panic!("there is a live object"),
        Difference::None => Vec::new(),
        Difference::Update { changes } => changes
            .into_iter()
            .map(|change| {
                let text = |value: Option<Value>| value.map_or("-".to_owned(), |value| value.to_string());
                format!("{}: {} > {}", change.path, text(change.from), text(change.to))
            })
            .collect(),
    }
}

#[track_caller]
fn assert_quiet(desired: &Object, live: &Object) {
    assert_eq!(changes(desired, live), Vec::<String>::new());
}

#[test]
fn an_object_that_is_not_there_is_created() {
    assert_eq!(difference(&agent(json!({})), None, FieldManager::Sync, Part::Main), Difference::Create);
}

#[test]
fn a_quiet_object_makes_no_write() {
    let desired = agent(json!({"runtime": {"replicas": 3}, "rollout": {"steps": [{"setWeight": 25}, {"pause": {}}]}}));
    let live = owned(
        desired.clone(),
        &[("serin-sync", "Apply", json!({"f:spec": {"f:runtime": {"f:replicas": {}}, "f:rollout": {"f:steps": {}}}}))],
    );
    assert_quiet(&desired, &live);
}

#[test]
fn drift_in_a_field_is_found() {
    let found = changes(&agent(json!({"runtime": {"replicas": 3}})), &agent(json!({"runtime": {"replicas": 5}})));
    assert_eq!(found, ["spec.runtime.replicas: 5 > 3"]);
}

#[test]
fn a_field_that_is_missing_in_the_cluster_is_found() {
    assert_eq!(changes(&agent(json!({"a": {"b": "x"}})), &agent(json!({}))), [r#"spec.a: - > {"b":"x"}"#]);
}

#[test]
fn a_field_that_git_removed_and_we_own_is_found() {
    let live = owned(
        agent(json!({"a": 1, "b": {"c": 2}})),
        &[("serin-sync", "Apply", json!({"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}))],
    );
    assert_eq!(changes(&agent(json!({"a": 1})), &live), [r#"spec.b: {"c":2} > -"#]);
}

#[test]
fn a_field_that_another_manager_owns_too_is_not_removed() {
    let live = owned(
        agent(json!({"b": {"c": 2, "d": 3}})),
        &[
            ("serin-sync", "Apply", json!({"f:spec": {"f:b": {"f:c": {}, "f:d": {}}}})),
            ("kubectl", "Update", json!({"f:spec": {"f:b": {".": {}, "f:c": {}}}})),
        ],
    );
    assert_eq!(changes(&agent(json!({})), &live), ["spec.b.d: 3 > -"]);
}

#[test]
fn the_marker_of_a_parent_is_no_ownership() {
    let live = owned(agent(json!({"b": {"c": 2}})), &[("serin-sync", "Apply", json!({"f:spec": {"f:b": {".": {}}}}))]);
    assert_quiet(&agent(json!({})), &live);
}

#[test]
fn what_we_own_by_an_update_or_in_the_status_is_not_ours_to_remove() {
    let mut live = owned(agent(json!({"a": 1})), &[("serin-sync", "Update", json!({"f:spec": {"f:a": {}}}))]);
    live.set(&["status"], json!({"x": 1}));
    assert_quiet(&agent(json!({})), &live);
}

#[test]
fn labels_and_annotations_of_other_tools_stay() {
    let desired = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": "1"}}}));
    let live = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "labels": {"a": "1", "theirs": "x"}, "annotations": {"theirs/too": "y"}, "uid": "7", "resourceVersion": "9"
    }}));
    assert_quiet(&desired, &live);
}

#[test]
fn a_label_with_dots_is_named_in_brackets() {
    let desired = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a.b/c": "1"}}}));
    let live = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a.b/c": "2"}}}));
    assert_eq!(changes(&desired, &live), [r#"metadata.labels[a.b/c]: "2" > "1""#]);
}

#[test]
fn the_defaults_of_the_server_are_no_difference() {
    let desired = pod(json!({"containers": [{"name": "facade", "image": "i", "ports": [{"containerPort": 80}]}]}));
    let live = pod(json!({"dnsPolicy": "ClusterFirst", "securityContext": {}, "containers": [{
        "name": "facade", "image": "i", "imagePullPolicy": "Always", "resources": {},
        "ports": [{"containerPort": 80, "protocol": "TCP"}]
    }]}));
    assert_quiet(&desired, &live);
}

#[test]
fn items_of_associative_lists_are_found_by_their_keys() {
    let desired = pod(json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}));
    let live = pod(json!({"containers": [
        {"name": "injected", "image": "x"}, {"name": "b", "image": "2"}, {"name": "a", "image": "0"}
    ]}));
    assert_eq!(changes(&desired, &live), [r#"spec.template.spec.containers[name=a].image: "0" > "1""#]);
}

#[test]
fn an_item_that_was_removed_is_found_by_its_owner() {
    let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
        "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:env": {"k:{\"name\":\"X\"}": {".": {}, "f:name": {}, "f:value": {}}}}
    }}}}});
    let live = pod(json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y"}]}]}));
    let live = owned(live, &[("serin-sync", "Apply", fields)]);
    let found = changes(&pod(json!({"containers": [{"name": "a"}]})), &live);
    // Y is nobody's, so that the list goes as a whole: this is what the server does, too.
    assert_eq!(found, [r#"spec.template.spec.containers[name=a].env: [{"name":"X","value":"1"},{"name":"Y"}] > -"#]);
}

#[test]
fn atomic_lists_are_compared_item_by_item() {
    let live = agent(json!({"rollout": {"steps": [{"setWeight": 25}, {"pause": {"duration": "5s"}}]}}));
    let shorter = agent(json!({"rollout": {"steps": [{"setWeight": 25}]}}));
    let longer =
        agent(json!({"rollout": {"steps": [{"setWeight": 25}, {"pause": {"duration": "5s"}}, {"setWeight": 50}]}}));
    let other = agent(json!({"rollout": {"steps": [{"pause": {"duration": "5s"}}, {"setWeight": 25}]}}));
    for desired in [shorter, longer, other] {
        assert_eq!(changes(&desired, &live).len(), 1, "{desired:?}");
    }
}

#[test]
fn a_field_removed_inside_an_atomic_list_is_a_difference_and_not_a_default() {
    let live = agent(json!({"rollout": {"steps": [{"pause": {"duration": "5s"}}]}}));
    assert_eq!(changes(&agent(json!({"rollout": {"steps": [{"pause": {}}]}})), &live).len(), 1);
}

#[test]
fn a_known_default_inside_an_atomic_list_is_no_difference() {
    let desired = agent(json!({"facades": [{"type": "websocket"}]}));
    let live = agent(json!({"facades": [{"type": "websocket", "port": 8080, "handler": "runtime"}]}));
    assert_quiet(&desired, &live);
    let live = agent(json!({"facades": [{"type": "websocket", "port": 9000, "handler": "runtime"}]}));
    assert_eq!(changes(&desired, &live).len(), 1);
}

#[test]
fn the_owners_tell_how_a_list_is_merged_where_the_table_does_not_know() {
    let desired = agent(json!({"things": [{"id": "a", "x": 1}]}));
    let live = agent(json!({"things": [{"id": "theirs"}, {"id": "a", "x": 1}]}));
    assert_eq!(changes(&desired, &live).len(), 1);
    let fields = json!({"f:spec": {"f:things": {"k:{\"id\":\"a\"}": {".": {}, "f:id": {}, "f:x": {}}}}});
    assert_quiet(&desired, &owned(live, &[("serin-sync", "Apply", fields)]));
}

#[test]
fn a_list_that_this_cluster_replaces_as_a_whole_is_compared_so() {
    let desired = agent(json!({"providers": [{"name": "a"}]}));
    let live = agent(json!({"providers": [{"name": "a"}, {"name": "b"}]}));
    assert_quiet(&desired, &live);
    let fields = json!({"f:spec": {"f:providers": {}}});
    assert_eq!(changes(&desired, &owned(live, &[("kubectl", "Update", fields)])).len(), 1);
}

#[test]
fn quantities_are_compared_by_what_they_mean() {
    let with = |cpu: Value, memory: &str| {
        pod(json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": cpu, "memory": memory}}}]}))
    };
    assert_quiet(&with("1000m".into(), "1024Mi"), &with("1".into(), "1Gi"));
    assert_quiet(&with(json!(0.5), "1e3"), &with("500m".into(), "1k"));
    assert_quiet(&with(json!(2), "128974848"), &with("2".into(), "123Mi"));
    assert_eq!(changes(&with("1001m".into(), "1Gi"), &with("1".into(), "1G")).len(), 2);
}

#[test]
fn a_quantity_of_a_custom_resource_is_text() {
    let with = |cpu: &str| agent(json!({"runtime": {"resources": {"limits": {"cpu": cpu}}}}));
    assert_eq!(changes(&with("1000m"), &with("1")).len(), 1);
}

#[test]
fn an_empty_map_of_a_custom_resource_says_something() {
    let routed = agent(json!({"rollout": {"trafficRouting": {}, "steps": [{"pause": {}}]}}));
    let unrouted = agent(json!({"rollout": {"steps": [{"pause": {}}]}}));
    assert_eq!(changes(&routed, &unrouted), ["spec.rollout.trafficRouting: - > {}"]);
    assert_quiet(&routed, &routed);
    let other = agent(json!({"rollout": {"trafficRouting": {}, "steps": [{}]}}));
    assert_eq!(changes(&routed, &other).len(), 1);
}

#[test]
fn empty_values_and_nulls_are_absent_and_whole_numbers_are_equal() {
    let desired = agent(json!({"b": [], "c": null, "d": 1.0}));
    assert_quiet(&desired, &agent(json!({"d": 1})));
    assert_quiet(&pod(json!({"a": {}, "e": {"f": {}}})), &pod(json!({})));
}

#[test]
fn an_empty_text_that_a_built_in_kind_does_not_keep_is_no_difference() {
    let desired = pod(json!({"containers": [{"name": "a", "env": [{"name": "X", "value": ""}]}]}));
    let live = pod(json!({"containers": [{"name": "a", "env": [{"name": "X"}]}]}));
    assert_eq!(changes(&desired, &live).len(), 1);
    let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
        ".": {}, "f:name": {}, "f:env": {"k:{\"name\":\"X\"}": {".": {}, "f:name": {}, "f:value": {}}}
    }}}}}});
    assert_quiet(&desired, &owned(live, &[("serin-sync", "Apply", fields)]));
}

#[test]
fn a_selector_is_replaced_as_a_whole() {
    let service =
        |selector: Value| object(json!({"apiVersion": "v1", "kind": "Service", "spec": {"selector": selector}}));
    assert_quiet(&service(json!({"a": "1"})), &service(json!({"a": "1"})));
    assert_eq!(changes(&service(json!({"a": "1"})), &service(json!({"a": "1", "b": "2"}))).len(), 1);
}

#[test]
fn finalizers_of_others_stay() {
    let with = |finalizers: Value| {
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": finalizers}}))
    };
    assert_quiet(&with(json!(["a/b"])), &with(json!(["c/d", "a/b"])));
    assert_eq!(changes(&with(json!(["a/b"])), &with(json!(["c/d"]))).len(), 1);
    let fields = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a/b\"": {}, "v:\"c/d\"": {}}}});
    let live = owned(with(json!(["a/b", "c/d"])), &[("serin-sync", "Apply", fields)]);
    assert_eq!(changes(&with(json!(["a/b"])), &live), [r#"metadata.finalizers[c/d]: "c/d" > -"#]);
}

#[test]
fn the_status_is_compared_only_when_it_is_asked_for() {
    let status = |message: &str, time: &str| {
        object(json!({"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "AgentRuntime", "status": {"conditions": [
            {"type": "Ready", "message": message, "lastTransitionTime": time}
        ]}, "spec": {"x": message}}))
    };
    let (desired, live) = (status("a", "1"), status("b", "2"));
    assert_eq!(changes(&desired, &live), [r#"spec.x: "b" > "a""#]);
    let Difference::Update { changes } = difference(&desired, Some(&live), FieldManager::Rollout, Part::Status) else {
        panic!("the status differs");
    };
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["status.conditions[type=Ready].lastTransitionTime", "status.conditions[type=Ready].message"]);
}

#[test]
fn two_states_are_the_same_to_an_apply_if_no_more_than_the_status_and_its_owners_differ() {
    let live = || {
        owned(
            object(json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"resourceVersion": "1", "generation": 2, "labels": {"a": "b"}},
                "spec": {"replicas": 3}, "status": {"replicas": 3},
            })),
            &[
                ("serin-rollout", "Apply", json!({"f:spec": {"f:replicas": {}}})),
                ("kube-controller-manager", "Update", json!({"f:metadata": {}, "f:status": {"f:replicas": {}}})),
            ],
        )
    };
    let is_same = |path: &[&str], value: Value| {
        let mut other = live();
        other.set(path, value);
        is_same_but_status(&live(), &other)
    };
    assert!(is_same(&["status"], json!({"replicas": 1, "availableReplicas": 1})));
    assert!(is_same(&["metadata", "resourceVersion"], json!("2")));
    for (path, value) in [
        (&["spec", "replicas"][..], json!(2)),
        (&["metadata", "labels", "a"], json!("c")),
        (&["metadata", "generation"], json!(3)),
        (&["metadata", "annotations"], json!({})),
        (&["metadata", "managedFields"], json!([])),
        (&["data"], json!({})),
    ] {
        assert!(!is_same(path, value), "{path:?}");
    }
    let with_entry = |index: usize, edit: fn(&mut Value)| {
        let mut value = live().into_value();
        edit(&mut value["metadata"]["managedFields"][index]);
        is_same_but_status(&live(), &object(value))
    };
    assert!(with_entry(1, |entry| entry["time"] = json!("2026-01-01T00:00:00Z")));
    assert!(with_entry(1, |entry| entry["fieldsV1"]["f:status"] = json!({"f:availableReplicas": {}})));
    assert!(!with_entry(1, |entry| entry["fieldsV1"]["f:metadata"] = json!({"f:annotations": {}})));
    assert!(!with_entry(1, |entry| entry["manager"] = json!("kubectl")));
    assert!(!with_entry(1, |entry| entry["subresource"] = json!("status")));
    assert!(!with_entry(0, |entry| entry["operation"] = json!("Update")));
    assert!(!with_entry(0, |entry| entry["fieldsV1"]["f:spec"] = json!({})));
}
