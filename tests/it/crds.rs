//! The CRDs on a real API server: what they refuse, with which words, and that they lose nothing.

use kube::api::{GetParams, PostParams};
use serde_json::{Value, json};
use serin::api::{crds, duration};
use tokio::sync::OnceCell;

use crate::support::control_plane::{ControlPlane, User};

/// What the API server answers to a dry run.
enum Answer {
    Accepted(Value),
    Invalid(String),
}

impl Answer {
    #[track_caller]
    fn accepted(self) -> Value {
        match self {
            Self::Accepted(object) => object,
            Self::Invalid(why) => panic!("refused: {why}"),
        }
    }

    #[track_caller]
    fn refused(self, words: &str) {
        match self {
            Self::Accepted(object) => panic!("accepted: {object}"),
            Self::Invalid(why) => assert!(why.contains(words), "{words:?} is not in: {why}"),
        }
    }
}

/// The shared control plane, with Serin's CRDs.
pub(crate) async fn plane() -> &'static ControlPlane {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared();
    let install = async || {
        for (file, text) in crds::all() {
            let crd: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
            plane.install_crd(&crd).await;
        }
    };
    INSTALLED.get_or_init(install).await;
    plane
}

fn collection(plural: &str) -> String {
    format!("/apis/omnia.altairalabs.ai/v1alpha1/namespaces/default/{plural}")
}

async fn create(plural: &str, object: &Value, params: PostParams) -> Answer {
    let client = plane().await.client(User::Admin).await;
    let body = serde_json::to_vec(object).expect("JSON");
    let request = kube::core::Request::new(collection(plural)).create(&params, body).expect("a request");
    match client.request(request).await {
        Ok(object) => Answer::Accepted(object),
        Err(kube::Error::Api(status)) if status.reason == "Invalid" => Answer::Invalid(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

async fn try_create(plural: &str, object: &Value) -> Answer {
    create(plural, object, PostParams { dry_run: true, ..PostParams::default() }).await
}

fn agent(pack: Value, rollout: Value) -> Value {
    json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "AgentRuntime",
        "metadata": {"name": "support"},
        "spec": {"promptPackRef": pack, "facades": [{"type": "websocket"}], "rollout": rollout},
    })
}

/// An agent with this rollout and a pinned pack.
async fn rollout(rollout: Value) -> Answer {
    try_create("agentruntimes", &agent(json!({"name": "p", "version": "v1"}), rollout)).await
}

async fn step(step: Value) -> Answer {
    rollout(json!({"steps": [step]})).await
}

async fn metric(change: Value) -> Answer {
    let mut metric = json!({
        "name": "errors", "interval": "1m", "count": 5, "successCondition": "result[0] < 0.05",
        "provider": {"prometheus": {"address": "http://prometheus:9090", "query": "up"}},
    });
    let change = change.as_object().expect("a map").clone();
    metric.as_object_mut().expect("a map").extend(change);
    try_create("rolloutanalyses", &analysis(json!([metric]))).await
}

fn analysis(metrics: Value) -> Value {
    json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "RolloutAnalysis",
        "metadata": {"name": "quality"},
        "spec": {"metrics": metrics},
    })
}

#[test]
fn the_files_are_what_the_binary_prints() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/crds");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    files.sort();
    assert_eq!(files, crds::all().map(|(file, _)| file));
    let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(folder.join(file)).unwrap()).collect();
    assert_eq!(crds::print(), texts.join("---\n"));
}

#[test]
fn durations_are_checked_by_the_pattern_that_the_parser_documents() {
    for (file, places) in [("agentruntimes.yaml", 2), ("rolloutanalyses.yaml", 1)] {
        let (_, text) = crds::all().into_iter().find(|(name, _)| *name == file).unwrap();
        let rule = format!("self.matches(r'{}')", duration::PATTERN);
        assert_eq!(text.matches(&rule).count(), places, "{file}");
    }
}

#[tokio::test]
async fn a_trigger_needs_a_pinned_pack() {
    let rollout = json!({"steps": [{"setWeight": 100}], "trigger": {"promptPackChannel": "stable"}});
    for pack in [json!({"name": "p", "track": "stable"}), json!({"name": "p"})] {
        try_create("agentruntimes", &agent(pack, rollout.clone())).await.refused("mutually exclusive");
    }
    try_create("agentruntimes", &agent(json!({"name": "p", "version": "1.0.0"}), rollout)).await.accepted();
}

#[tokio::test]
async fn a_version_and_a_track_exclude_each_other() {
    let both = json!({"name": "p", "version": "1.0.0", "track": "stable"});
    let steps = json!([{"setWeight": 100}]);
    try_create("agentruntimes", &agent(both.clone(), json!({"steps": steps}))).await.refused("mutually exclusive");
    rollout(json!({"candidate": {"promptPackRef": both}, "steps": steps})).await.refused("mutually exclusive");
}

#[tokio::test]
async fn a_rollout_needs_steps() {
    rollout(json!({"steps": []})).await.refused("spec.rollout.steps");
    rollout(json!({})).await.refused("spec.rollout.steps");
}

#[tokio::test]
async fn a_weight_is_a_percentage() {
    for weight in [101, -1] {
        step(json!({"setWeight": weight})).await.refused("spec.rollout.steps[0].setWeight");
    }
    for weight in [0, 100] {
        step(json!({"setWeight": weight})).await.accepted();
    }
}

#[tokio::test]
async fn a_step_is_exactly_one_of_three() {
    for wrong in
        [json!({}), json!({"setWeight": 5, "pause": {}}), json!({"pause": {}, "analysis": {"templateName": "t"}})]
    {
        step(wrong).await.refused("exactly one of setWeight, pause, analysis");
    }
    for right in [json!({"setWeight": 5}), json!({"pause": {}}), json!({"analysis": {"templateName": "t"}})] {
        step(right).await.accepted();
    }
}

#[tokio::test]
async fn durations_are_in_go_syntax() {
    for right in ["0", "0s", "5m", "1h30m", "1.5h", ".5s", "100ms", "10us", "10µs", "10μs"] {
        assert!(duration::parse_duration(right).is_ok());
        step(json!({"pause": {"duration": right}})).await.accepted();
    }
    for wrong in ["", "5", "5 minutes", "-5m", "1d", "5m "] {
        assert!(duration::parse_duration(wrong).is_err());
        step(json!({"pause": {"duration": wrong}})).await.refused("must be a duration that is not negative");
    }
    let steps = json!([{"setWeight": 100}]);
    rollout(json!({"steps": steps, "rollback": {"cooldown": "soon"}})).await.refused("must be a duration");
    metric(json!({"interval": "often"})).await.refused("must be a duration");
}

#[tokio::test]
async fn rollback_modes_are_three() {
    let steps = json!([{"setWeight": 100}]);
    rollout(json!({"steps": steps, "rollback": {"mode": "bogus"}})).await.refused("spec.rollout.rollback.mode");
    for mode in ["automatic", "manual", "disabled"] {
        rollout(json!({"steps": steps, "rollback": {"mode": mode}})).await.accepted();
    }
}

#[tokio::test]
async fn routing_that_can_deliver_nothing_is_refused() {
    let routing =
        async |routing: Value| rollout(json!({"steps": [{"setWeight": 100}], "trafficRouting": routing})).await;
    let istio =
        |routes: Value| json!({"virtualService": {"name": "vs", "routes": routes}, "destinationRule": {"name": "dr"}});
    routing(json!({"istio": istio(json!([]))})).await.refused("virtualService.routes");
    routing(json!({"mode": "external"})).await.refused("mode external needs trafficRouting.istio");
    routing(json!({"mesh": {"stableSubset": "a", "candidateSubset": "a"}})).await.refused("must differ");
    routing(json!({"mode": "magic"})).await.refused("trafficRouting.mode");
    for right in [
        json!({}),
        json!({"mode": "mesh"}),
        json!({"mode": "replicaWeighted", "mesh": {"waypoint": "w"}}),
        json!({"istio": istio(json!(["primary"]))}),
        json!({"mode": "external", "istio": istio(json!(["primary"]))}),
    ] {
        routing(right).await.accepted();
    }
}

#[tokio::test]
async fn a_sticky_header_is_the_name_of_a_header() {
    let sticky =
        async |header: &str| rollout(json!({"steps": [{"setWeight": 50}], "stickySession": {"hashOn": header}})).await;
    for wrong in ["x user", "x-user:", "ä"] {
        sticky(wrong).await.refused("must be the name of an HTTP header");
    }
    sticky("").await.refused("hashOn");
    sticky("x-user-id").await.accepted();
}

#[tokio::test]
async fn a_candidate_names_a_provider_once() {
    let provider = |name: &str| json!({"name": name, "providerRef": {"name": "p"}});
    let with = async |providers: Value| {
        rollout(json!({"steps": [{"setWeight": 50}], "candidate": {"providerRefs": providers}})).await
    };
    with(json!([provider("a"), provider("a")])).await.refused("must not contain a name twice");
    with(json!([provider("a"), provider("b")])).await.accepted();
}

#[tokio::test]
async fn a_whole_rollout_is_accepted_with_the_documented_defaults() {
    let accepted = rollout(json!({
        "candidate": {"promptPackRef": {"name": "p", "version": "v2"}, "providerRefs": [
            {"name": "default", "providerRef": {"name": "openai"}},
        ]},
        "steps": [{"setWeight": 20}, {"pause": {"duration": "5m"}}, {"setWeight": 100}],
        "rollback": {},
        "trafficRouting": {"mesh": {}},
    }));
    let rollout = accepted.await.accepted()["spec"]["rollout"].clone();
    assert_eq!(rollout["rollback"], json!({"mode": "manual", "cooldown": "5m"}));
    assert_eq!(rollout["trafficRouting"]["mesh"], json!({"stableSubset": "stable", "candidateSubset": "canary"}));
    assert_eq!(rollout["candidate"]["providerRefs"][0]["role"], "llm");
}

#[tokio::test]
async fn modes_and_facades_belong_together() {
    let with = async |spec: Value| {
        let mut object = agent(json!({"name": "p"}), Value::Null);
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        try_create("agentruntimes", &object).await
    };
    let schema = json!({"inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}});
    let function = |facades: Value| {
        let mut spec = schema.clone();
        spec["mode"] = "function".into();
        spec["facades"] = facades;
        spec
    };
    with(json!({"mode": "function", "facades": [{"type": "rest"}]})).await.refused("spec.inputSchema is required");
    with(schema.clone()).await.refused("spec.inputSchema is only valid");
    with(json!({"outputFormat": "json"})).await.refused("spec.outputFormat is only valid");
    with(json!({"facades": [{"type": "rest"}]})).await.refused("mode 'agent' allows only");
    with(function(json!([{"type": "websocket"}]))).await.refused("mode 'function' allows only");
    with(function(json!([{"type": "mcp"}]))).await.refused("exactly one 'rest'");
    with(json!({"facades": [{"type": "a2a"}, {"type": "a2a"}]})).await.refused("duplicate facade types");
    with(json!({"facades": [{"type": "custom"}]})).await.refused("requires spec.facades[].image");
    with(json!({"facades": [{"type": "websocket", "port": 70000}]})).await.refused("spec.facades[0].port");
    with(json!({"facades": []})).await.refused("spec.facades");
    with(json!({"context": {"type": "redis"}})).await.refused("storeRef is required");
    with(function(json!([{"type": "rest"}, {"type": "mcp"}]))).await.accepted();
    with(json!({"facades": [{"type": "websocket"}, {"type": "a2a"}]})).await.accepted();
}

#[tokio::test]
async fn nothing_of_a_field_that_is_only_passed_through_is_lost() {
    let anything = json!({"deep": [{"er": {"list": [1, "two", 3.5, true]}}]});
    let mut object = agent(json!({"name": "p"}), Value::Null);
    for field in ["console", "duplex", "evals", "externalAuth", "media", "memory", "podOverrides", "ofTheNextVersion"] {
        object["spec"][field] = anything.clone();
    }
    object["spec"]["runtime"] = json!({"replicas": 2, "affinity": anything, "extraEnv": [{"name": "A", "value": "b"}]});
    object["spec"]["facades"][0]["clientToolTimeout"] = "60s".into();
    object["spec"]["facades"][0]["expose"] = anything.clone();
    let stored = try_create("agentruntimes", &object).await.accepted();
    assert_within(&object["spec"], &stored["spec"]);
}

#[tokio::test]
async fn a_published_pack_never_changes() {
    let pack = json!({
        "apiVersion": "omnia.altairalabs.ai/v1alpha1",
        "kind": "PromptPack",
        "metadata": {"name": "pp-immutable"},
        "spec": {"packName": "p", "version": "v1.0.0", "source": {"type": "configmap", "configMapRef": {"name": "c"}}},
    });
    let plane = plane().await;
    plane.create(&collection("promptpacks"), &pack).await;
    let client = plane.client(User::Admin).await;
    let patch = |patch: Value| {
        let params = kube::api::PatchParams::default();
        let patch = kube::api::Patch::Merge(patch);
        let request = kube::core::Request::new(collection("promptpacks")).patch("pp-immutable", &params, &patch);
        client.request::<Value>(request.unwrap())
    };
    let error = patch(json!({"spec": {"version": "v1.0.1"}})).await.unwrap_err().to_string();
    assert!(error.contains("immutable"), "{error}");
    patch(json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    for version in ["1.0", "latest", "1.0.0-a-b"] {
        let mut other = pack.clone();
        other["metadata"]["name"] = "other".into();
        other["spec"]["version"] = version.into();
        try_create("promptpacks", &other).await.refused("spec.version");
    }
}

#[tokio::test]
async fn an_analysis_needs_a_metric_with_a_name_and_measurements() {
    try_create("rolloutanalyses", &analysis(json!([]))).await.refused("spec.metrics");
    metric(json!({"name": ""})).await.refused("spec.metrics[0].name");
    metric(json!({"count": 0})).await.refused("spec.metrics[0].count");
    metric(json!({"failureLimit": -1})).await.refused("spec.metrics[0].failureLimit");
    metric(json!({"provider": {"prometheus": {"address": "a"}}})).await.refused("prometheus.query");
    let stored = metric(json!({"provider": {"web": {"url": "http://x"}}})).await.accepted();
    let stored = &stored["spec"]["metrics"][0];
    assert_eq!(stored["failureLimit"], 0);
    assert_eq!(stored["provider"]["web"], json!({"url": "http://x", "method": "GET", "timeout": 30}));
}

#[tokio::test]
async fn kubectl_shows_what_people_look_for() {
    let columns = async |plural: &str| {
        let mut request = kube::core::Request::new(collection(plural)).list(&kube::api::ListParams::default()).unwrap();
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        request.headers_mut().insert("accept", table.parse().unwrap());
        let table: Value = plane().await.client(User::Admin).await.request(request).await.unwrap();
        let columns: Vec<String> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| format!("{}{}", column["name"].as_str().unwrap(), "+".repeat(wide(column))))
            .collect();
        (columns.join(" "), table["rows"].clone())
    };
    assert_eq!(columns("agentruntimes").await.0, "Name Phase Ready Version Candidate Step Weight Rollout+ Age");
    assert_eq!(columns("promptpacks").await.0, "Name Version Phase Age");

    let metric =
        |name: &str| json!({"name": name, "interval": "1m", "count": 1, "successCondition": "", "provider": {}});
    let named = analysis(json!([metric("errors"), metric("latency")]));
    plane().await.create(&collection("rolloutanalyses"), &named).await;
    let (names, rows) = columns("rolloutanalyses").await;
    assert_eq!(names, "Name Metrics Metric-2 Metric-3 Metric-4+ Metric-5+ Age");
    assert_eq!(rows[0]["cells"].as_array().unwrap()[..3], [json!("quality"), json!("errors"), json!("latency")]);
}

#[tokio::test]
async fn short_names_and_the_status_subresource_are_served() {
    let client = plane().await.client(User::Admin).await;
    let request = kube::core::Request::new("/apis/omnia.altairalabs.ai").get("v1alpha1", &GetParams::default());
    let resources: Value = client.request(request.unwrap()).await.unwrap();
    let resources = resources["resources"].as_array().unwrap();
    let find = |name: &str| resources.iter().find(|resource| resource["name"] == name).unwrap();
    for (plural, short) in
        [("agentruntimes", json!(["agent", "ar"])), ("promptpacks", json!(["pp"])), ("rolloutanalyses", json!(["ra"]))]
    {
        assert_eq!(find(plural)["shortNames"], short);
        find(&format!("{plural}/status"));
    }
}

fn wide(column: &Value) -> usize {
    usize::from(column["priority"] != 0)
}

/// Whether all of `part` is in `whole`, which may have more: what the API server fills in.
#[track_caller]
pub(crate) fn assert_within(part: &Value, whole: &Value) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part.iter().filter(|(_, value)| !value.is_null()) {
                assert_within(value, whole.get(key).unwrap_or_else(|| panic!("{key} is lost")));
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len());
            part.iter().zip(whole).for_each(|(part, whole)| assert_within(part, whole));
        }
        _ => assert_eq!(part, whole),
    }
}
