//! An admission webhook, called by the API server over https, that denies what a test says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use base64::Engine as _;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use super::certificates::{self, Shown};
use super::control_plane::ControlPlane;
use super::git_server::TlsListener;

/// Where configurations of validating webhooks are.
pub(crate) const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Why an object is denied; `None`: it is not.
type Judge = Box<dyn Fn(&Value) -> Option<&'static str> + Send>;

struct Inside {
    judge: Mutex<Judge>,
    asked: AtomicUsize,
}

/// The webhook; dropping it stops it. Whoever deletes its namespace leaves its configuration behind, which then counts for
/// nothing.
pub(crate) struct Admission {
    name: String,
    plane: &'static ControlPlane,
    inside: Arc<Inside>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Admission {
    /// One that is asked about the creation and change of `resources` (`group/plural`) in `namespace`, and denies nothing yet.
    pub(crate) async fn over(plane: &'static ControlPlane, namespace: &str, resources: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let inside = Arc::new(Inside { judge: Mutex::new(Box::new(|_| None)), asked: AtomicUsize::new(0) });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback interface");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("a bound socket").port();
        let app = axum::Router::new().fallback(review).with_state(Arc::clone(&inside));
        let (tls, _) = certificates::server(Shown::Good);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            axum::serve(TlsListener { listener, tls: TlsAcceptor::from(tls) }, app).await.expect("never fails");
        });
        let authority = std::fs::read(certificates::authority_file()).expect("a certificate");
        let rules: Vec<Value> = resources
            .iter()
            .map(|resource| {
                let (group, plural) = resource.split_once('/').expect("group/plural");
                json!({
                    "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [plural],
                })
            })
            .collect();
        let name = format!("denies-{namespace}");
        let configuration = json!({
            "metadata": {"name": name},
            "webhooks": [{
                "name": "denies.serin.dev",
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 10,
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{port}/"),
                    "caBundle": base64::engine::general_purpose::STANDARD.encode(authority),
                },
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": rules,
            }],
        });
        plane.create(WEBHOOKS, &configuration).await;
        Self { name, plane, inside, runtime: Some(runtime) }
    }

    /// From now on `judge` says what is denied, and why.
    pub(crate) fn deny(&self, judge: impl Fn(&Value) -> Option<&'static str> + Send + 'static) {
        *self.inside.judge.lock().expect("never poisoned") = Box::new(judge);
    }

    /// From now on nothing is denied.
    pub(crate) fn allow(&self) {
        self.deny(|_| None);
    }

    /// How often the API server has asked so far. A configuration takes it a moment to notice.
    pub(crate) fn asked(&self) -> usize {
        self.inside.asked.load(Ordering::SeqCst)
    }

    /// Takes the configuration away.
    pub(crate) async fn remove(&self) {
        self.plane.delete(WEBHOOKS, &self.name).await;
    }
}

async fn review(State(inside): State<Arc<Inside>>, body: Bytes) -> impl IntoResponse {
    let review: Value = serde_json::from_slice(&body).expect("an AdmissionReview");
    inside.asked.fetch_add(1, Ordering::SeqCst);
    let request = &review["request"];
    let why = (inside.judge.lock().expect("never poisoned"))(&request["object"]);
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": why.is_none(), "status": {"message": why.unwrap_or_default()}},
    });
    ([(header::CONTENT_TYPE, "application/json")], answer.to_string())
}
