//! The loader as its users see it: files in, objects and problems out.

mod agents;
mod analysis;
mod assembling;
mod files;
mod granting;
mod lists;
mod reading;
mod schemas;

use std::sync::LazyLock;

use serde_json::Value;

use super::{Assembly, Desired, LoadedFile, Rules, Schemas, load_file};
use crate::ids::TreePath;

/// CRDs with the shapes that the validator must know; the real ones are larger.
const CRDS: [&str; 3] = [
    "
kind: CustomResourceDefinition
metadata: { name: agentruntimes.omnia.altairalabs.ai }
spec:
  group: omnia.altairalabs.ai
  names: { kind: AgentRuntime }
  versions:
    - name: v1alpha1
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            apiVersion: { type: string }
            kind: { type: string }
            metadata: { type: object }
            spec:
              type: object
              required: [facades, promptPackRef]
              x-kubernetes-preserve-unknown-fields: true
              properties:
                facades: { type: array, minItems: 1, maxItems: 4, items: { type: object, x-kubernetes-preserve-unknown-fields: true } }
                promptPackRef: &pack
                  type: object
                  required: [name]
                  properties:
                    name: { type: string, minLength: 1 }
                    version: { type: string }
                    track: { type: string, enum: [stable, prerelease] }
                providers:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name]
                  items: &provider
                    type: object
                    required: [name, providerRef]
                    properties:
                      name: { type: string, minLength: 1, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$' }
                      providerRef:
                        type: object
                        required: [name]
                        properties: { name: { type: string, minLength: 1 }, namespace: { type: string } }
                toolRegistryRef: &tools
                  type: object
                  required: [name]
                  properties: { name: { type: string, minLength: 1 }, namespace: { type: string } }
                runtime:
                  type: object
                  x-kubernetes-preserve-unknown-fields: true
                  properties:
                    replicas: { type: integer, format: int32, minimum: 0 }
                    extraArgs: { type: array, x-kubernetes-list-type: set, items: { type: string } }
                    port: { x-kubernetes-int-or-string: true }
                    since: { type: string, format: date-time }
                    ratio: { type: number, minimum: 0.5 }
                    debug: { type: boolean }
                    note: { type: string, nullable: true, maxLength: 5 }
                rollout:
                  type: object
                  required: [steps]
                  properties:
                    candidate:
                      type: object
                      properties:
                        promptPackRef: *pack
                        providerRefs: { type: array, items: *provider }
                        toolRegistryRef: *tools
                    steps:
                      type: array
                      minItems: 1
                      items:
                        type: object
                        properties:
                          setWeight: { type: integer, format: int32, minimum: 0, maximum: 100 }
                          pause: { type: object, properties: { duration: { type: string } } }
                          analysis:
                            type: object
                            required: [templateName]
                            properties:
                              templateName: { type: string, minLength: 1 }
                              args: { type: array, items: { type: object, properties: { name: { type: string }, value: { type: string } } } }
                    rollback:
                      type: object
                      properties:
                        mode: { type: string, enum: [automatic, manual, disabled], default: manual }
                        cooldown: { type: string, default: 5m }
                    trafficRouting:
                      type: object
                      properties:
                        mode: { type: string, enum: [mesh, replicaWeighted, external] }
                        mesh: { type: object, properties: { waypoint: { type: string } } }
                        istio: { type: object, x-kubernetes-preserve-unknown-fields: true }
                    stickySession: { type: object, required: [hashOn], properties: { hashOn: { type: string } } }
                    trigger:
                      type: object
                      required: [promptPackChannel]
                      properties: { promptPackChannel: { type: string, enum: [stable, prerelease] } }
            status: { type: object, x-kubernetes-preserve-unknown-fields: true }
",
    r"
kind: CustomResourceDefinition
metadata: { name: promptpacks.omnia.altairalabs.ai }
spec:
  group: omnia.altairalabs.ai
  names: { kind: PromptPack }
  versions:
    - name: v1alpha1
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [packName, source, version]
              properties:
                packName: { type: string, minLength: 1 }
                version: { type: string, pattern: '^v?(\d+)\.(\d+)\.(\d+)(-[a-zA-Z0-9]+(\.[a-zA-Z0-9]+)*)?(\+[a-zA-Z0-9]+(\.[a-zA-Z0-9]+)*)?$' }
                source:
                  type: object
                  required: [type]
                  properties:
                    type: { type: string, enum: [configmap] }
                    configMapRef: { type: object, properties: { name: { type: string, default: '' } } }
",
    "
kind: CustomResourceDefinition
metadata: { name: rolloutanalyses.omnia.altairalabs.ai }
spec:
  group: omnia.altairalabs.ai
  names: { kind: RolloutAnalysis }
  versions:
    - name: v1alpha1
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [metrics]
              properties:
                args: { type: array, items: { type: object, required: [name], properties: { name: { type: string, minLength: 1 }, value: { type: string } } } }
                metrics:
                  type: array
                  minItems: 1
                  items:
                    type: object
                    required: [name, interval, count, successCondition, provider]
                    properties:
                      name: { type: string, minLength: 1 }
                      interval: { type: string }
                      count: { type: integer, format: int32, minimum: 1 }
                      failureLimit: { type: integer, format: int32, minimum: 0, default: 0 }
                      successCondition: { type: string }
                      provider:
                        type: object
                        properties:
                          prometheus: { type: object, required: [address, query], properties: { address: { type: string, minLength: 1 }, query: { type: string, minLength: 1 } } }
                          web: { type: object, required: [url], properties: { url: { type: string }, method: { type: string, enum: [GET, POST] }, headers: { type: object, additionalProperties: { type: string } }, jsonPath: { type: string }, timeout: { type: integer, format: int32 } } }
                          arenaEval: { type: object, required: [evalDef], properties: { evalDef: { type: string, minLength: 1 } } }
",
];

/// An agent without a rollout that is right in every way.
const AGENT: &str = "apiVersion: omnia.altairalabs.ai/v1alpha1
kind: AgentRuntime
metadata:
  name: support-agent
  namespace: production
spec:
  facades: [{ type: websocket }]
  promptPackRef: { name: support-pack, version: 1.0.0 }
  runtime: { replicas: 4 }
";

fn test_schemas() -> &'static Schemas {
    static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| Schemas::from_crds(CRDS).unwrap());
    &SCHEMAS
}

fn load_with(path: &str, bytes: &[u8], rules: &Rules) -> LoadedFile {
    load_file(&TreePath::new(path), bytes, rules, test_schemas())
}

/// What the files of a first commit say.
fn assemble<'f>(files: impl IntoIterator<Item = &'f LoadedFile>) -> Desired {
    super::assemble(files.into_iter().cloned())
}

/// What the one file `agent.yaml` says.
fn desired(text: &str) -> Desired {
    assemble([&load_with("agent.yaml", text.as_bytes(), &Rules::default())])
}

/// All problems of the one file `agent.yaml`, as people read them.
fn problems(text: &str) -> String {
    render(&desired(text))
}

fn render(desired: &Desired) -> String {
    desired.problems.iter().map(super::Diagnostic::render).collect::<Vec<_>>().join("\n")
}

/// The keys of what may be applied, and of what is held.
fn summary(desired: &Desired) -> (Vec<String>, Vec<String>) {
    (desired.objects.keys().map(ToString::to_string).collect(), desired.held.iter().map(ToString::to_string).collect())
}

/// The one object of a file without problems.
#[track_caller]
fn only_object(text: &str) -> Value {
    let desired = desired(text);
    assert_eq!(render(&desired), "");
    assert_eq!(desired.objects.len(), 1);
    desired.objects.values().next().unwrap().object().as_ref().clone().into_value()
}
