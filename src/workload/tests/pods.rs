//! The pods: containers, environment, mounts, scheduling.

use super::*;

#[test]
fn a_weight_does_not_change_the_pods() {
    let fixture = |replicas| {
        let mut fixture = Fixture::new().with(&["spec", "runtime"], json!({"replicas": 4}));
        fixture.replicas = replicas;
        fixture.deployment(Track::Stable)
    };
    let all = fixture(Some(4));
    assert_eq!(all.integer("/spec/replicas"), Some(4));
    let few = fixture(Some(1));
    assert_eq!(few.integer("/spec/replicas"), Some(1));
    assert_eq!(few.at("/spec/template"), all.at("/spec/template"));
    let autoscaled = fixture(None);
    assert_eq!(autoscaled.at("/spec/replicas"), None, "an autoscaler's field is left to it");
    assert_eq!(autoscaled.at("/spec/template"), all.at("/spec/template"));
}

#[test]
fn pods_are_spread_over_zones_where_there_are_several_and_the_user_says_nothing_else() {
    let spread = |runtime: Value| {
        let deployment = Fixture::new().with(&["spec", "runtime"], runtime).deployment(Track::Stable);
        deployment.at("/spec/template/spec/topologySpreadConstraints").cloned()
    };
    assert_eq!(spread(json!({})), None);
    assert_eq!(spread(json!({"replicas": 1})), None);
    assert_eq!(spread(json!({"replicas": 2, "affinity": {"podAntiAffinity": {}}})), None);
    let constraint = &spread(json!({"replicas": 2})).unwrap()[0];
    assert_eq!(constraint["topologyKey"], "topology.kubernetes.io/zone");
    assert_eq!(constraint["labelSelector"]["matchLabels"][names::TRACK_LABEL], "stable");
}

#[test]
fn the_grace_period_is_the_drain_and_half_a_minute() {
    let grace = |facade: Value| {
        let deployment = Fixture::new().facades(json!([facade])).deployment(Track::Stable);
        deployment.integer("/spec/template/spec/terminationGracePeriodSeconds").unwrap()
    };
    assert_eq!(grace(json!({"type": "websocket"})), 60);
    for (drain, seconds) in [("45s", 75), ("2m", 150), ("500ms", 60), ("soon", 60), ("1h", 630), ("1.9s", 31)] {
        assert_eq!(grace(json!({"type": "websocket", "drainTimeout": drain})), seconds, "{drain}");
    }
}

#[test]
fn pods_wait_before_they_end_without_a_shell() {
    let deployment = Fixture::new().deployment(Track::Stable);
    assert_eq!(container(&deployment, "facade")["lifecycle"], json!({"preStop": {"sleep": {"seconds": 5}}}));
    assert_eq!(container(&deployment, "runtime").get("lifecycle"), None);
}

#[test]
fn the_environment_is_in_the_documented_order() {
    let names = |deployment: &Object, container: &str| {
        env(deployment, container).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    };
    let deployment = Fixture::new().deployment(Track::Stable);
    assert_eq!(
        names(&deployment, "facade"),
        "OMNIA_AGENT_NAME OMNIA_NAMESPACE OMNIA_FACADE_PORT OMNIA_HEALTH_PORT OMNIA_VARIANT OMNIA_HANDLER_MODE \
         OMNIA_RUNTIME_ADDRESS POD_IP OMNIA_PROMPTPACK_VERSION"
    );
    assert_eq!(
        names(&deployment, "runtime"),
        "OMNIA_AGENT_NAME OMNIA_NAMESPACE OMNIA_PROMPTPACK_PATH OMNIA_PROMPT_NAME OMNIA_GRPC_PORT OMNIA_HEALTH_PORT \
         OMNIA_PROMPTPACK_VERSION OMNIA_FACADE_PORT"
    );
    let echo = Fixture::new().facades(json!([{"type": "websocket", "handler": "echo"}])).deployment(Track::Stable);
    assert_eq!(variable(&echo, "facade", "OMNIA_RUNTIME_ADDRESS"), None);
}

#[test]
fn the_last_of_several_variables_of_one_name_counts() {
    let fixture = Fixture::new()
        .facades(json!([{"type": "websocket", "extraEnv": [
            {"name": "LOG_LEVEL", "value": "info"}, {"name": "OMNIA_VARIANT", "value": "mine"},
        ]}]))
        .with(&["spec", "podOverrides"], json!({"extraEnv": [{"name": "LOG_LEVEL", "value": "debug"}]}));
    let deployment = fixture.deployment(Track::Stable);
    assert_eq!(variable(&deployment, "facade", "LOG_LEVEL").as_deref(), Some("debug"));
    assert_eq!(variable(&deployment, "facade", "OMNIA_VARIANT").as_deref(), Some("mine"));
    assert_eq!(variable(&deployment, "runtime", "LOG_LEVEL").as_deref(), Some("debug"));
    let candidate = fixture.deployment(Track::Candidate);
    assert_eq!(variable(&candidate, "facade", "OMNIA_VARIANT").as_deref(), Some("candidate"), "analyses depend on it");
}

#[test]
fn a2a_beside_websocket_is_a_second_listener_of_the_facade() {
    let deployment = Fixture::new()
        .facades(json!([
            {"type": "websocket"},
            {"type": "a2a", "a2a": {"taskTTL": "1h", "taskStore": {"type": "redis", "redisSecretRef": {"name": "r"}}}},
        ]))
        .deployment(Track::Candidate);
    let ports = &container(&deployment, "facade")["ports"];
    assert_eq!(ports[2], json!({"name": "a2a", "containerPort": 9999, "protocol": "TCP"}));
    for (name, value) in [
        ("OMNIA_A2A_ENABLED", "true"),
        ("OMNIA_A2A_PORT", "9999"),
        ("OMNIA_A2A_TASK_TTL", "1h"),
        ("OMNIA_A2A_TASK_STORE_TYPE", "redis"),
        ("OMNIA_A2A_REDIS_URL", r#"{"secretKeyRef":{"key":"url","name":"r"}}"#),
    ] {
        assert_eq!(variable(&deployment, "facade", name).as_deref(), Some(value));
    }
    assert!(container(&deployment, "runtime")["ports"].as_array().unwrap().len() == 2);
}

#[test]
fn an_agent_that_serves_only_a2a_is_one_container() {
    let mut fixture = Fixture::new().facades(json!([{"type": "a2a", "port": 7000, "a2a": {"clients": [
        {"name": "billing-agent", "agentRuntimeRef": {"name": "billing"}, "exposeAsTools": true,
         "authentication": {"secretRef": {"name": "billing-token"}}},
        {"name": "outside", "url": "https://example.com/a2a"},
        {"name": "unknown", "agentRuntimeRef": {"name": "unknown"}},
    ]}}]));
    fixture.peers.insert(AgentKey::new("shop", "billing"), "http://billing.shop.svc.cluster.local:8080".into());
    let deployment = fixture.deployment(Track::Candidate);
    assert_eq!(deployment.at("/spec/template/spec/containers").unwrap().as_array().unwrap().len(), 1);
    let only = container(&deployment, "facade");
    assert_eq!(only["ports"], json!([{"name": "facade", "containerPort": 7000, "protocol": "TCP"}]));
    assert_eq!(only["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": 7000}));
    assert_eq!(variable(&deployment, "facade", "OMNIA_PROMPTPACK_PATH").as_deref(), Some("/etc/omnia/pack"));
    assert_eq!(variable(&deployment, "facade", "OMNIA_VARIANT").as_deref(), Some("candidate"));
    assert_eq!(variable(&deployment, "facade", "OMNIA_HEALTH_PORT"), None);
    assert_eq!(
        serde_json::from_str::<Value>(&variable(&deployment, "facade", "OMNIA_A2A_CLIENTS").unwrap()).unwrap(),
        json!([
            {"name": "billing-agent", "url": "http://billing.shop.svc.cluster.local:8080", "exposeAsTools": true,
             "authTokenEnv": "OMNIA_A2A_CLIENT_TOKEN_BILLING_AGENT"},
            {"name": "outside", "url": "https://example.com/a2a"},
        ])
    );
    assert_eq!(
        variable(&deployment, "facade", "OMNIA_A2A_CLIENT_TOKEN_BILLING_AGENT").as_deref(),
        Some(r#"{"secretKeyRef":{"key":"token","name":"billing-token"}}"#)
    );
    assert_eq!(mounts(&deployment, "facade"), ["promptpack-config", "canary-override"]);
}

#[test]
fn a_function_serves_rest_and_may_serve_mcp() {
    let deployment = Fixture::new()
        .with(&["spec", "mode"], json!("function"))
        .facades(json!([{"type": "rest"}, {"type": "mcp", "mcp": {"port": 6000}}]))
        .deployment(Track::Stable);
    assert_eq!(deployment.label("omnia.altairalabs.ai/mode"), Some("function"));
    assert_eq!(variable(&deployment, "facade", "OMNIA_MCP_ENABLED").as_deref(), Some("true"));
    assert_eq!(variable(&deployment, "facade", "OMNIA_MCP_PORT").as_deref(), Some("6000"));
    assert_eq!(container(&deployment, "facade")["ports"][2]["name"], "mcp");
}

#[test]
fn images_are_the_agents_then_the_settings_then_the_stock_ones() {
    let images = |fixture: &Fixture| {
        let deployment = fixture.deployment(Track::Stable);
        ["facade", "runtime"].map(|name| container(&deployment, name)["image"].as_str().unwrap().to_owned())
    };
    let mut fixture = Fixture::new();
    assert_eq!(
        images(&fixture),
        ["ghcr.io/altairalabs/omnia-facade:latest", "ghcr.io/altairalabs/omnia-runtime:latest"]
    );
    fixture.settings.facade_image = Some("facade:1".into());
    fixture.settings.framework_images.insert("promptkit".into(), "runtime:1".into());
    assert_eq!(images(&fixture), ["facade:1", "runtime:1"]);
    fixture.agent["spec"]["facades"][0]["image"] = "mine:2".into();
    fixture.agent["spec"]["framework"] = json!({"type": "promptkit", "image": "runtime:2"});
    assert_eq!(images(&fixture), ["mine:2", "runtime:2"]);
}

#[test]
fn a_framework_without_an_image_is_an_error_and_never_another_framework() {
    let mut fixture = Fixture::new().with(&["spec", "framework"], json!({"type": "langchain"}));
    let error = fixture.render(Track::Stable).unwrap_err();
    assert_eq!(error, RenderError::FrameworkImageUnavailable { framework: "langchain".into() });
    assert_eq!((error.condition(), error.reason()), ("FrameworkReady", "FrameworkImageUnavailable"));
    fixture.settings.framework_images.insert("langchain".into(), "langchain:1".into());
    assert!(fixture.render(Track::Stable).is_ok());
}

#[test]
fn tool_credentials_are_mounted_from_where_they_are() {
    let mut fixture = Fixture { registry: Some(registry("tools")), ..Fixture::new() };
    fixture.registry.as_mut().unwrap()["spec"]["handlers"].as_array_mut().unwrap().push(json!({
        "name": "crm", "type": "mcp", "mcpConfig": {"transport": "sse", "endpoint": "http://crm"},
        "auth": {"type": "serviceAccount", "serviceAccount": {"audience": "crm"}},
    }));
    let deployment = fixture.deployment(Track::Stable);
    let volumes = deployment.at("/spec/template/spec/volumes").unwrap().as_array().unwrap();
    let volume = |name: &str| volumes.iter().find(|volume| volume["name"] == name).unwrap();
    assert_eq!(
        volume("tool-secrets")["projected"]["sources"],
        json!([{"secret": {"name": "weather-token", "items": [{"key": "token", "path": "weather"}]}}])
    );
    assert_eq!(
        volume("tool-sa-tokens")["projected"]["sources"],
        json!([{"serviceAccountToken": {"path": "crm/token", "audience": "crm", "expirationSeconds": 3600}}])
    );
    assert_eq!(
        mounts(&deployment, "runtime"),
        ["promptpack-config", "tools-config", "pack-cache", "tool-secrets", "tool-sa-tokens"]
    );
    assert_eq!(mounts(&deployment, "facade"), ["promptpack-config"]);
}

#[test]
fn labels_of_ours_win_over_the_users_and_annotations_of_the_user_win_over_ours() {
    let deployment = Fixture::new()
        .with(
            &["spec", "extraPodAnnotations"],
            json!({"traffic.sidecar.istio.io/excludeInboundPorts": "1", "a": "extra"}),
        )
        .with(
            &["spec", "podOverrides"],
            json!({
                "labels": {"team": "blue", (names::TRACK_LABEL): "mine"},
                "annotations": {"a": "override"},
            }),
        )
        .deployment(Track::Stable);
    let labels = deployment.at("/spec/template/metadata/labels").unwrap();
    assert_eq!(labels["team"], "blue");
    assert_eq!(labels[names::TRACK_LABEL], "stable");
    let annotations = deployment.at("/spec/template/metadata/annotations").unwrap();
    assert_eq!(annotations["traffic.sidecar.istio.io/excludeInboundPorts"], "1");
    assert_eq!(annotations["a"], "override");
}
