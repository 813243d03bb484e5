//! What both tracks share: Service, access, ownership.

use super::*;

#[test]
fn what_both_tracks_share_comes_with_the_stable_one() {
    let fixture = Fixture { registry: Some(registry("tools-v1")), ..Fixture::new() }
        .with(&["spec", "toolRegistryRef"], json!({"name": "tools-v1"}));
    assert_eq!(
        names_of(&fixture.render(Track::Stable).unwrap()),
        [
            "ServiceAccount shop/support-facade",
            "Role shop/support-facade",
            "RoleBinding shop/support-facade",
            "ConfigMap shop/support-tools",
            "Service shop/support",
            "Deployment shop/support",
        ]
    );
    let candidate = fixture.render(Track::Candidate).unwrap();
    assert_eq!(
        names_of(&candidate),
        [
            "ConfigMap shop/support-canary-config",
            "ConfigMap shop/support-canary-tools",
            "Deployment shop/support-canary"
        ]
    );
    for (track, objects) in [(Track::Stable, fixture.render(Track::Stable).unwrap()), (Track::Candidate, candidate)] {
        let keys = keys(&AgentKey::new("shop", "support"), track);
        assert_eq!(keys[0].kind, crate::object::Kind::DEPLOYMENT, "pods go first");
        assert!(objects.iter().all(|object| keys.contains(&object.key())));
    }
}

#[test]
fn everything_is_controlled_by_the_agent_and_nothing_is_rendered_without_one() {
    for track in [Track::Stable, Track::Candidate] {
        for object in full().render(track).unwrap() {
            assert!(object.is_controlled_by(&crate::ids::Uid::new("uid-1")), "{object:?}");
        }
        let homeless = full().with(&["metadata", "uid"], Value::Null);
        assert_eq!(homeless.render(track).unwrap_err(), RenderError::NotInCluster);
    }
}

#[test]
fn the_service_has_a_port_for_each_protocol_and_each_management_plane() {
    let ports = |facades: Value| {
        let agent = Object::from_value(Fixture::new().facades(facades).agent).unwrap();
        let service = render_service(&agent, None).unwrap();
        let ports = service.at("/spec/ports").unwrap().as_array().unwrap().clone();
        assert!(ports.iter().all(|port| port["appProtocol"] == "http" && port["protocol"] == "TCP"));
        let line = |port: &Value| format!("{} {} {}", port["name"], port["port"], port["targetPort"]).replace('"', "");
        ports.iter().map(line).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(ports(json!([{"type": "websocket"}])), "facade 8080 facade, facade-mgmt 18080 18080");
    assert_eq!(ports(json!([{"type": "websocket", "port": 9090, "managementPlane": false}])), "facade 9090 facade");
    assert_eq!(
        ports(json!([{"type": "websocket"}, {"type": "a2a", "a2a": {"port": 7777}}])),
        "facade 8080 facade, a2a 7777 a2a, facade-mgmt 18080 18080, a2a-mgmt 19999 19999"
    );
    assert_eq!(
        ports(json!([{"type": "mcp"}, {"type": "rest"}])),
        "facade 8080 facade, mcp 9998 mcp, facade-mgmt 18080 18080, mcp-mgmt 19998 19998"
    );
    assert_eq!(ports(json!([{"type": "a2a", "port": 9999}])), "facade 9999 facade, facade-mgmt 18080 18080");
}

#[test]
fn a_waypoint_is_a_label_of_the_service_and_never_in_its_selector() {
    let agent = Object::from_value(Fixture::new().agent).unwrap();
    let plain = render_service(&agent, None).unwrap();
    let service = render_service(&agent, Some("waypoint")).unwrap();
    assert_eq!(service.label("istio.io/use-waypoint"), Some("waypoint"));
    assert_eq!(service.at("/spec"), plain.at("/spec"));
    let selector = service.at("/spec/selector").unwrap().as_object().unwrap();
    for track in [Track::Stable, Track::Candidate] {
        let deployment = Fixture::new().deployment(track);
        let pods = deployment.at("/spec/template/metadata/labels").unwrap();
        assert!(selector.iter().all(|(key, value)| pods.get(key) == Some(value)), "it finds the pods of both tracks");
    }
}

#[test]
fn pods_may_read_secrets_by_label_only_where_clients_have_keys() {
    let secrets = |fixture: Fixture| {
        let agent = Object::from_value(fixture.agent).unwrap();
        let [_, role, _] = render_access(&agent, &WorkloadSettings::default()).unwrap();
        role.at("/rules/2/verbs").cloned().unwrap()
    };
    assert_eq!(secrets(Fixture::new()), json!(["get"]));
    let keys = json!({"clientKeys": {}});
    assert_eq!(secrets(Fixture::new().with(&["spec", "externalAuth"], keys)), json!(["get", "list", "watch"]));
}

#[test]
fn the_role_is_bound_to_the_account_that_the_pods_run_as() {
    let mut fixture = Fixture::new();
    let accounts = |fixture: &Fixture| {
        let objects = fixture.render(Track::Stable).unwrap();
        let subject = objects[2].at("/subjects").unwrap()[0]["name"].as_str().unwrap().to_owned();
        let pods = objects.last().unwrap().text("/spec/template/spec/serviceAccountName").unwrap().to_owned();
        assert_eq!(subject, pods);
        pods
    };
    assert_eq!(accounts(&fixture), "support-facade");
    let workspace = Workspace { name: "w".into(), service_account: Some("cloud".into()), ..Workspace::default() };
    fixture.settings.workspaces.insert("shop".into(), workspace);
    assert_eq!(accounts(&fixture), "cloud");
    fixture.agent["spec"]["podOverrides"] = json!({"serviceAccountName": "own"});
    assert_eq!(accounts(&fixture), "own");
}

#[test]
fn nothing_of_the_candidate_has_a_name_of_stable() {
    let agent = AgentKey::new("shop", "support");
    let stable = keys(&agent, Track::Stable);
    assert!(keys(&agent, Track::Candidate).iter().all(|key| !stable.contains(key)));
}
