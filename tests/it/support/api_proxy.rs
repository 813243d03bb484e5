//! Somebody between a daemon and the API server, who decides about each request: lets it through, answers instead, or keeps
//! it at the moment before or after it is carried out, so that the daemon can be killed exactly there.
//!
//! Plain HTTP towards the daemon, and the user `serin` towards the API server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use tokio::sync::Notify;

use super::control_plane::{ControlPlane, User};

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It gets through, and so does its answer.
    Pass,
    /// The API server does not see it; this is the answer, with a `Retry-After`.
    SlowDown {
        /// The seconds.
        after: u64,
    },
    /// The API server does not see it, and nobody answers.
    HoldBefore,
    /// It is carried out, and nobody answers.
    HoldAfter,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) at: tokio::time::Instant,
}

impl Call {
    /// Whether it changes something other than the Lease.
    pub(crate) fn is_effect(&self) -> bool {
        self.method != "GET" && !self.path.contains("/apis/coordination.k8s.io/")
    }
}

type Rule = Box<dyn FnMut(&Call) -> Fate + Send>;

struct Inside {
    client: kube::Client,
    rule: Mutex<Rule>,
    held: AtomicUsize,
    cut: Notify,
    effects: Mutex<Vec<(Call, u16)>>,
}

/// The proxy; dropping it stops it.
pub(crate) struct ApiProxy {
    port: u16,
    inside: Arc<Inside>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl ApiProxy {
    /// Stands before the API server and lets everything through.
    pub(crate) fn before(plane: &'static ControlPlane) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (tell, told) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let inside = Arc::new(Inside {
                client: plane.client(User::Serin).await,
                rule: Mutex::new(Box::new(|_| Fate::Pass)),
                held: AtomicUsize::new(0),
                cut: Notify::new(),
                effects: Mutex::default(),
            });
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback interface");
            let port = listener.local_addr().expect("a bound socket").port();
            tell.send((port, Arc::clone(&inside))).expect("somebody waits");
            let app = axum::Router::new().fallback(serve).with_state(inside);
            axum::serve(listener, app).await.expect("never fails");
        });
        let (port, inside) = told.recv().expect("the proxy starts");
        Self { port, inside, runtime: Some(runtime) }
    }

    /// Where daemons find it.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on `rule` decides.
    pub(crate) fn set_rule(&self, rule: impl FnMut(&Call) -> Fate + Send + 'static) {
        *self.inside.rule.lock().expect("never poisoned") = Box::new(rule);
    }

    /// From now on everything gets through.
    pub(crate) fn pass(&self) {
        self.set_rule(|_| Fate::Pass);
    }

    /// How many requests have been held so far.
    pub(crate) fn held(&self) -> usize {
        self.inside.held.load(Ordering::SeqCst)
    }

    /// Cuts every connection on which an answer is under way: the watches.
    pub(crate) fn cut(&self) {
        self.inside.cut.notify_waiters();
    }

    /// The effects that got through or were answered, with the code of the answer, in order.
    pub(crate) fn effects(&self) -> Vec<(Call, u16)> {
        self.inside.effects.lock().expect("never poisoned").clone()
    }
}

async fn serve(State(inside): State<Arc<Inside>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let call = Call { method: head.method.to_string(), path, at: tokio::time::Instant::now() };
    let fate = (inside.rule.lock().expect("never poisoned"))(&call);
    match fate {
        Fate::Pass => forward(&inside, &call, &head, body).await,
        Fate::SlowDown { after } => {
            inside.note(&call, 429);
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", after.to_string())], "slow down").into_response()
        }
        Fate::HoldBefore => hold(&inside).await,
        Fate::HoldAfter => {
            let answer = forward(&inside, &call, &head, body).await;
            // To its end: by then it is carried out.
            let _answer = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            hold(&inside).await
        }
    }
}

async fn hold(inside: &Inside) -> Response {
    inside.held.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

async fn forward(inside: &Arc<Inside>, call: &Call, head: &axum::http::request::Parts, body: Bytes) -> Response {
    let mut request = axum::http::Request::builder().method(head.method.clone()).uri(call.path.as_str());
    for name in ["accept", "content-type", "user-agent"] {
        if let Some(value) = head.headers.get(name) {
            request = request.header(name, value.clone());
        }
    }
    let request = request.body(kube::client::Body::from(body.to_vec())).expect("a request that came in");
    let Ok(answer) = inside.client.send(request).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (head, body) = answer.into_parts();
    inside.note(call, head.status.as_u16());
    let inside = Arc::clone(inside);
    // An error in the middle of a body ends the connection without a farewell.
    let cut = async move { inside.cut.notified().await };
    let stream = Body::new(body).into_data_stream().take_until(Box::pin(cut));
    let is_watch = call.path.contains("watch=");
    let farewell = futures::stream::iter(is_watch.then(|| Err(axum::Error::new(std::io::Error::other("cut")))));
    let mut response = Response::builder().status(head.status);
    for name in ["content-type", "retry-after"] {
        if let Some(value) = head.headers.get(name) {
            response = response.header(name, value.clone());
        }
    }
    response.body(Body::from_stream(stream.chain(farewell))).expect("headers that came in")
}

impl Inside {
    fn note(&self, call: &Call, code: u16) {
        if call.is_effect() {
            self.effects.lock().expect("never poisoned").push((call.clone(), code));
        }
    }
}
