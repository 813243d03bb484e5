//! The fields that a real API server fills in, as far as they matter to who compares objects.
//!
//! Those of custom kinds are read from the CRDs that Serin ships; those of built-in kinds are written out here.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::api::crds;
use crate::object::{Kind, Object};

/// Fills in the defaults of a kind.
pub(super) fn fill_in(object: &mut Object, kind: &Kind) {
    if let Some(defaults) = custom_kinds().get(kind) {
        for (name, defaults) in &defaults.fields {
            if let Some(value) = object.fields_mut().get_mut(name) {
                defaults.fill_in(value);
            }
        }
    } else if *kind == Kind::DEPLOYMENT {
        if let Some(spec) = map_at(object.fields_mut(), "spec") {
            deployment(spec);
        }
    } else if *kind == Kind::SERVICE {
        let address = service_address(object.name());
        if let Some(spec) = map_at(object.fields_mut(), "spec") {
            service(spec, &address);
        }
    } else if *kind == Kind::ROLE_BINDING
        && let Some(role) = map_at(object.fields_mut(), "roleRef")
    {
        put(role, "apiGroup", "rbac.authorization.k8s.io");
    }
}

/// The defaults of a schema: only the branches that have any.
#[derive(Default)]
struct Defaults {
    value: Option<Value>,
    fields: Vec<(String, Self)>,
    items: Option<Box<Self>>,
}

impl Defaults {
    fn of_schema(schema: &Value) -> Self {
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let fields = fields.map(|(name, schema)| (name.clone(), Self::of_schema(schema)));
        Self {
            value: schema.get("default").cloned(),
            fields: fields.filter(|(_, defaults)| !defaults.is_empty()).collect(),
            items: schema.get("items").map(Self::of_schema).filter(|items| !items.is_empty()).map(Box::new),
        }
    }

    fn is_empty(&self) -> bool {
        self.value.is_none() && self.fields.is_empty() && self.items.is_none()
    }

    fn fill_in(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, defaults) in &self.fields {
                    if let (None | Some(Value::Null), Some(default)) = (map.get(name), &defaults.value) {
                        map.insert(name.clone(), default.clone());
                    }
                    if let Some(value) = map.get_mut(name) {
                        defaults.fill_in(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(defaults) = &self.items {
                    items.iter_mut().for_each(|item| defaults.fill_in(item));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The defaults of the kinds whose CRDs Serin ships.
fn custom_kinds() -> &'static BTreeMap<Kind, Defaults> {
    static KINDS: OnceLock<BTreeMap<Kind, Defaults>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let mut kinds = BTreeMap::new();
        for (_, text) in crds::all() {
            // The tests of the CRDs hold them to be YAML; one that were not would have no defaults here.
            let Ok(crd) = serde_saphyr::from_str::<Value>(text) else { continue };
            let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            for version in crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten() {
                let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
                let api_version = format!("{}/{name}", text("/spec/group"));
                let kind = Kind::from_api_version(&api_version, text("/spec/names/kind"));
                let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
                kinds.insert(kind, Defaults::of_schema(schema));
            }
        }
        kinds
    })
}

fn deployment(spec: &mut Map<String, Value>) {
    put(spec, "replicas", 1);
    put(spec, "progressDeadlineSeconds", 600);
    put(spec, "revisionHistoryLimit", 10);
    let strategy = child(spec, "strategy");
    put(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = child(strategy, "rollingUpdate");
        put(rolling, "maxSurge", "25%");
        put(rolling, "maxUnavailable", "25%");
    }
    pod(child(child(spec, "template"), "spec"));
}

fn pod(pod: &mut Map<String, Value>) {
    put(pod, "dnsPolicy", "ClusterFirst");
    put(pod, "restartPolicy", "Always");
    put(pod, "schedulerName", "default-scheduler");
    put(pod, "terminationGracePeriodSeconds", 30);
    child(pod, "securityContext");
    // Two names of one field, kept in step by the server.
    if let Some(account) = pod.get("serviceAccountName").cloned() {
        pod.insert("serviceAccount".into(), account);
    } else if let Some(account) = pod.get("serviceAccount").cloned() {
        pod.insert("serviceAccountName".into(), account);
    }
    for name in ["initContainers", "containers"] {
        maps_in(pod, name).for_each(container);
    }
    for volume in maps_in(pod, "volumes") {
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(source) = map_at(volume, source) {
                put(source, "defaultMode", 420);
            }
        }
        for source in map_at(volume, "projected").into_iter().flat_map(|projected| maps_in(projected, "sources")) {
            if let Some(token) = map_at(source, "serviceAccountToken") {
                put(token, "expirationSeconds", 3600);
            }
        }
    }
}

fn container(container: &mut Map<String, Value>) {
    put(container, "terminationMessagePath", "/dev/termination-log");
    put(container, "terminationMessagePolicy", "File");
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let is_moving = name.ends_with(":latest") || !name.contains([':', '@']);
    put(container, "imagePullPolicy", if is_moving { "Always" } else { "IfNotPresent" });
    child(container, "resources");
    for port in maps_in(container, "ports") {
        put(port, "protocol", "TCP");
    }
    for variable in maps_in(container, "env") {
        if let Some(field) = map_at(variable, "valueFrom").and_then(|from| map_at(from, "fieldRef")) {
            put(field, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = map_at(container, name) else { continue };
        put(probe, "failureThreshold", 3);
        put(probe, "periodSeconds", 10);
        put(probe, "successThreshold", 1);
        put(probe, "timeoutSeconds", 1);
        if let Some(get) = map_at(probe, "httpGet") {
            put(get, "path", "/");
            put(get, "scheme", "HTTP");
        }
    }
}

fn service(spec: &mut Map<String, Value>, address: &str) {
    put(spec, "type", "ClusterIP");
    put(spec, "clusterIP", address);
    if let Some(address) = spec.get("clusterIP").cloned() {
        put(spec, "clusterIPs", Value::Array(vec![address]));
    }
    put(spec, "ipFamilies", json!(["IPv4"]));
    put(spec, "ipFamilyPolicy", "SingleStack");
    put(spec, "internalTrafficPolicy", "Cluster");
    put(spec, "sessionAffinity", "None");
    for port in maps_in(spec, "ports") {
        put(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            put(port, "targetPort", number);
        }
    }
}

/// An address out of 10.96.0.0/16 that is always the same for a name. Nobody connects to it.
fn service_address(name: &str) -> String {
    let sum = name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("10.96.{}.{}", (sum >> 8) & 0xff, sum & 0xff)
}

fn put(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), value.into());
    }
}

/// The map in a field, made where the field is absent.
fn child<'a>(map: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(name.to_owned()).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made a map above")
}

fn map_at<'a>(map: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(name)?.as_object_mut()
}

fn maps_in<'a>(map: &'a mut Map<String, Value>, name: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}
