//! `tools.yaml`.

use super::*;

fn tools(handlers: Value, status: Value) -> Result<Value, RenderError> {
    let registry = Object::from_value(json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "ToolRegistry",
        "metadata": {"name": "tools", "namespace": "shop"},
        "spec": {"handlers": handlers},
        "status": status,
    }))
    .unwrap();
    render_tools(&registry).map(|text| serde_saphyr::from_str(&text).unwrap())
}

#[track_caller]
fn refusal(handler: Value) -> String {
    tools(json!([handler]), Value::Null).unwrap_err().to_string()
}

#[test]
fn each_type_of_handler_has_its_section() {
    let tool = json!({"name": "t", "description": "Yes: it does", "inputSchema": {}});
    let rendered = tools(
        json!([
            {"name": "web", "type": "http", "tool": tool, "timeout": "30s",
             "httpConfig": {"endpoint": "http://web", "method": "GET", "headers": {"x": "0x10"}, "queryParams": [],
                            "staticBody": {}, "urlTemplate": "http://web/{id}"}},
            {"name": "rpc", "type": "grpc", "tool": tool, "grpcConfig": {"endpoint": "rpc:9000", "tls": true}},
            {"name": "mcp", "type": "mcp", "mcpConfig": {"transport": "stdio", "command": "run", "args": ["-v"],
             "toolFilter": {"allowlist": ["a"], "blocklist": []}}},
            {"name": "api", "type": "openapi", "openAPIConfig": {"specURL": "http://api/spec", "operationFilter": ["x"]}},
            {"name": "browser", "type": "client", "tool": tool,
             "clientConfig": {"consentMessage": "May it?", "categories": ["location"]}},
        ]),
        Value::Null,
    );
    assert_eq!(
        rendered.unwrap(),
        json!({"handlers": [
            {"name": "web", "type": "http", "endpoint": "http://web", "tool": tool, "timeout": "30s",
             "httpConfig": {"endpoint": "http://web", "method": "GET", "headers": {"x": "0x10"}, "staticBody": {},
                            "urlTemplate": "http://web/{id}"}},
            {"name": "rpc", "type": "grpc", "endpoint": "rpc:9000", "tool": tool,
             "grpcConfig": {"endpoint": "rpc:9000", "tls": true}},
            {"name": "mcp", "type": "mcp", "endpoint": "run",
             "mcpConfig": {"transport": "stdio", "command": "run", "args": ["-v"], "toolFilter": {"allowlist": ["a"]}}},
            {"name": "api", "type": "openapi", "endpoint": "http://api/spec",
             "openAPIConfig": {"specURL": "http://api/spec", "operationFilter": ["x"]}},
            {"name": "browser", "type": "client", "tool": tool,
             "clientConfig": {"consentMessage": "May it?", "categories": ["location"]}},
        ]})
    );
}

#[test]
fn a_handler_that_its_registry_found_unavailable_is_left_out() {
    let handler = |name: &str| json!({"name": name, "type": "grpc", "grpcConfig": {"endpoint": "spec:1"}});
    let status = json!({"discoveredTools": [
        {"handlerName": "up", "status": "Available", "endpoint": "found:1"},
        {"handlerName": "down", "status": "Unavailable", "endpoint": "found:2"},
    ]});
    let rendered = tools(json!([handler("up"), handler("down"), handler("unknown")]), status).unwrap();
    let endpoints: Vec<&Value> =
        rendered["handlers"].as_array().unwrap().iter().map(|handler| &handler["grpcConfig"]["endpoint"]).collect();
    assert_eq!(endpoints, ["found:1", "spec:1"], "where nobody has looked, the spec says where it is");
}

#[test]
fn credentials_are_named_by_path_and_never_by_value() {
    let section = |mut handler: Value, key: &str| {
        handler["name"] = "h".into();
        tools(json!([handler]), Value::Null).unwrap()["handlers"][0][key].clone()
    };
    let secret = json!({"name": "s", "key": "k"});
    let bearer = json!({"authType": "bearer", "authTokenPath": "/etc/omnia/tool-secrets/h"});
    let older =
        json!({"type": "openapi", "openAPIConfig": {"specURL": "u", "authType": "bearer", "authSecretRef": secret}});
    let rendered = section(older, "openAPIConfig");
    assert_eq!((&rendered["authType"], &rendered["authTokenPath"]), (&bearer["authType"], &bearer["authTokenPath"]));

    let auth = json!({"type": "basic", "secretRef": secret});
    let rendered = section(json!({"type": "grpc", "grpcConfig": {"endpoint": "e"}, "auth": auth}), "grpcConfig");
    assert_eq!(rendered["authType"], "basic");

    let auth = json!({"type": "serviceAccount", "serviceAccount": {"audience": "a"}});
    let mcp = json!({"type": "mcp", "mcpConfig": {"transport": "sse", "endpoint": "e"}, "auth": auth});
    assert_eq!(section(mcp, "mcpConfig")["authTokenPath"], "/var/run/secrets/omnia/tool-sa/h/token");

    let auth = json!({"type": "workloadIdentity", "workloadIdentity": {"cloud": "azure", "audience": "a"}});
    let rendered = section(json!({"type": "http", "httpConfig": {"endpoint": "e"}, "auth": auth}), "httpConfig");
    assert_eq!(
        rendered,
        json!({"endpoint": "e", "authType": "workloadIdentity", "authCloud": "azure", "authAudience": "a",
               "authHeader": "Authorization"})
    );
}

#[test]
fn a_retry_policy_is_complete() {
    let policy = |kind: &str, section: &str, policy: Value| {
        let handler =
            json!({"name": "h", "type": kind, (section): {"endpoint": "e", "transport": "sse", "retryPolicy": policy}});
        tools(json!([handler]), Value::Null).unwrap()["handlers"][0][section]["retryPolicy"].clone()
    };
    let common = json!({"maxAttempts": 3, "initialBackoff": "100ms", "backoffMultiplier": 2.0, "maxBackoff": "30s"});
    assert_eq!(policy("mcp", "mcpConfig", json!({"maxAttempts": 3})), common);
    let http = policy("http", "httpConfig", json!({"maxAttempts": 3, "backoffMultiplier": "1.5", "retryOn": []}));
    assert_eq!(http["backoffMultiplier"], 1.5);
    assert_eq!(http["retryOn"], json!([]), "an empty list switches it off");
    assert_eq!((&http["retryOnNetworkError"], &http["respectRetryAfter"]), (&json!(true), &json!(true)));
    let http = policy("http", "httpConfig", json!({"maxAttempts": 3}));
    assert_eq!(http["retryOn"], json!([408, 429, 500, 502, 503, 504]));
    let grpc = policy("grpc", "grpcConfig", json!({"maxAttempts": 3}));
    assert_eq!(grpc["retryableStatusCodes"], json!(["UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"]));
}

#[test]
fn what_cannot_work_is_refused_with_the_handlers_name() {
    let auth = json!({"type": "bearer", "secretRef": {"name": "s", "key": "k"}});
    assert_eq!(
        refusal(json!({"name": "h", "type": "mcp", "mcpConfig": {"transport": "stdio"}, "auth": auth})),
        "tool handler \"h\": a stdio MCP server takes no credentials; use the transport sse or streamable-http"
    );
    let auth = json!({"type": "workloadIdentity", "workloadIdentity": {"cloud": "azure", "audience": "a"}});
    let error = refusal(json!({"name": "h", "type": "openapi", "openAPIConfig": {"specURL": "u"}, "auth": auth}));
    assert!(error.ends_with("workloadIdentity is only possible for handlers of the types http and grpc"), "{error}");
    for (policy, why) in [
        (json!({"backoffMultiplier": "0.5"}), "retryPolicy.backoffMultiplier \"0.5\" is no number of 1 or more"),
        (json!({"maxBackoff": "1ms"}), "retryPolicy.maxBackoff 1ms is shorter than initialBackoff 100ms"),
        (json!({"initialBackoff": "soon"}), "\"soon\" is not a duration: a number is expected"),
        (json!({"retryableStatusCodes": ["NOPE"]}), "has \"NOPE\", which is no gRPC status code"),
    ] {
        let handler = json!({"name": "h", "type": "grpc", "grpcConfig": {"endpoint": "e", "retryPolicy": policy}});
        let error = refusal(handler);
        assert!(error.contains(why), "{error}");
    }
}
