//! One request: built, sent within its time, and answered by an object or by the reason why not.
//!
//! kube's own `Api` keeps neither the status code of an answer nor its headers, and both are needed: `201` tells a
//! creation from a change, and `Retry-After` comes without a body.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use kube::core::request::Request;
use serde_json::{Map, Value};

use super::discovery::Resource;
use super::error::{self, Refusal};
use crate::chain::Chain;
use crate::cluster::{ClusterError, FieldManager, Part};
use crate::ids::Uid;
use crate::object::{Kind, ObjectKey};

/// Is told of each request after its answer, for metrics.
pub trait ObserveRequests: Send + Sync {
    /// A request has ended.
    fn observe(&self, outcome: &RequestOutcome<'_>);
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestOutcome<'a> {
    /// RBAC verb: `get`, `list`, `watch`, `create`, `patch`, `delete`. Discovery is a `get`.
    pub verb: &'static str,
    /// What it was about.
    pub kind: &'a Kind,
    /// `ok`, or [`ClusterError::kind`].
    pub result: &'static str,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) kind: &'a Kind,
    /// Empty for all namespaces.
    pub(super) namespace: &'a str,
    /// Empty for a collection.
    pub(super) name: &'a str,
}

impl<'a> Target<'a> {
    pub(super) fn of(key: &'a ObjectKey) -> Self {
        Self { kind: &key.kind, namespace: &key.namespace, name: &key.name }
    }

    pub(super) fn collection(kind: &'a Kind, namespace: Option<&'a str>) -> Self {
        Self { kind, namespace: namespace.unwrap_or_default(), name: "" }
    }

    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.kind.clone(), self.namespace, self.name)
    }
}

/// Whether a write is for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// It is.
    Real,
    /// The server does all but store it.
    Dry,
}

/// What to do.
#[derive(Debug)]
pub(super) enum Operation<'a> {
    Get,
    List(ListParams),
    /// A list of metadata alone.
    ListNames(ListParams),
    Create {
        body: &'a Value,
    },
    Apply {
        manager: FieldManager,
        force: bool,
        part: Part,
        body: &'a Map<String, Value>,
        run: Run,
    },
    Merge {
        patch: &'a Value,
        part: Part,
    },
    Delete {
        uid: &'a Uid,
    },
}

impl Operation<'_> {
    fn verb(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List(_) | Self::ListNames(_) => "list",
            Self::Create { .. } => "create",
            Self::Apply { .. } | Self::Merge { .. } => "patch",
            Self::Delete { .. } => "delete",
        }
    }
}

/// What a successful request returned.
#[derive(Debug)]
pub(super) struct Answer {
    /// `201 Created`.
    pub(super) created: bool,
    pub(super) body: Value,
}

/// The client with the rules for all requests.
#[derive(Clone)]
pub(super) struct Http {
    client: kube::Client,
    timeout: Duration,
    observer: Option<Arc<dyn ObserveRequests>>,
}

impl Http {
    pub(super) fn new(client: kube::Client, timeout: Duration, observer: Option<Arc<dyn ObserveRequests>>) -> Self {
        Self { client, timeout, observer }
    }

    pub(super) fn client(&self) -> &kube::Client {
        &self.client
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Does one thing with one object or collection of `resource`.
    pub(super) async fn send(
        &self,
        target: &Target<'_>,
        resource: &Resource,
        operation: &Operation<'_>,
    ) -> Result<Answer, ClusterError> {
        let path = resource.path(Some(target.namespace).filter(|namespace| !namespace.is_empty()));
        self.send_to(path, target, operation).await
    }

    /// The same below any path of the server.
    pub(super) async fn send_to(
        &self,
        path: String,
        target: &Target<'_>,
        operation: &Operation<'_>,
    ) -> Result<Answer, ClusterError> {
        let verb = operation.verb();
        let result = match tokio::time::timeout(self.timeout, self.exchange(path, target, operation)).await {
            Ok(result) => result,
            Err(_) => Err(ClusterError::Unavailable { why: format!("no answer within {:?}", self.timeout) }),
        };
        self.observe(verb, target.kind, result.as_ref().err());
        result
    }

    /// Reports a request to the observer.
    pub(super) fn observe(&self, verb: &'static str, kind: &Kind, error: Option<&ClusterError>) {
        if let Some(observer) = &self.observer {
            observer.observe(&RequestOutcome { verb, kind, result: error.map_or("ok", ClusterError::kind) });
        }
    }

    async fn exchange(
        &self,
        path: String,
        target: &Target<'_>,
        operation: &Operation<'_>,
    ) -> Result<Answer, ClusterError> {
        let request = Request::new(path);
        let name = target.name;
        let built = match operation {
            Operation::Get => request.get(name, &GetParams::default()),
            Operation::List(params) => request.list(params),
            Operation::ListNames(params) => request.list_metadata(params),
            Operation::Create { body } => {
                let params = PostParams { field_manager: Some("serin".into()), ..PostParams::default() };
                request.create(&params, body.to_string().into_bytes())
            }
            Operation::Apply { manager, force, part, body, run } => {
                let mut params = PatchParams::apply(manager.as_str());
                params.force = *force;
                params.dry_run = *run == Run::Dry;
                let patch = Patch::Apply(body);
                match part {
                    Part::Main => request.patch(name, &params, &patch),
                    Part::Status => request.patch_subresource("status", name, &params, &patch),
                }
            }
            Operation::Merge { patch, part } => {
                // The fields become the manager's that also applies decisions; the name shows in managedFields.
                let params =
                    PatchParams { field_manager: Some(FieldManager::Rollout.as_str().into()), ..Default::default() };
                let patch = Patch::Merge(patch);
                match part {
                    Part::Main => request.patch(name, &params, &patch),
                    Part::Status => request.patch_subresource("status", name, &params, &patch),
                }
            }
            Operation::Delete { uid } => {
                let uid = Preconditions { uid: Some(uid.as_str().into()), resource_version: None };
                request.delete(name, &DeleteParams::background().preconditions(uid))
            }
        };
        let request =
            built.map_err(|error| ClusterError::Invalid { key: target.key(), why: Chain(&error).to_string() })?;
        let unreachable = |error: kube::Error| ClusterError::Unavailable { why: Chain(&error).to_string() };
        let response = self.client.send(request.map(Body::from)).await.map_err(unreachable)?;
        let code = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = response.into_body().collect_bytes().await.map_err(unreachable)?;
        if !(200..300).contains(&code) {
            let refusal = Refusal { code, retry_after_seconds: retry_after, body: &bytes };
            return Err(error::from_refusal(operation.verb(), target, &refusal));
        }
        let body = serde_json::from_slice(&bytes)
            .map_err(|error| ClusterError::Unavailable { why: format!("its answer is not JSON: {error}") })?;
        Ok(Answer { created: code == 201, body })
    }
}
