//! The HTTP server: bound first, so that a wrong address ends the start with a clear error, then served
//! until the daemon ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;

use crate::telemetry::Metrics;
use crate::telemetry::metrics::OPENMETRICS_CONTENT_TYPE;
use crate::web::health::Health;
use crate::web::hooks::{Hooks, answer_hook};
use crate::web::patient::PatientListener;

/// How long requests in flight may take after the end has begun. All answers are made from memory, so
/// whoever takes longer does not read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for metrics and health; say another one with --listen, or none")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// A server that listens but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

#[derive(Clone)]
struct Shared {
    metrics: Metrics,
    health: Health,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address is taken, not of this machine, or not allowed.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let error = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        Ok(Self { listener, address })
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `end` resolves, then finishes requests in flight.
    ///
    /// Deliveries of webhooks go to `hooks`.
    ///
    /// # Errors
    /// If the listening socket itself breaks.
    pub async fn serve(
        self,
        metrics: Metrics,
        health: Health,
        hooks: Arc<Hooks>,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let router = Router::new()
            .route("/metrics", get(answer_metrics))
            .route("/healthz", get(answer_alive))
            .route("/readyz", get(answer_ready))
            .with_state(Shared { metrics, health: health.clone() })
            .merge(Router::new().route("/hooks/{source}", post(answer_hook)).with_state(hooks));
        let (ended, wait_for_end) = tokio::sync::oneshot::channel();
        let end = async move {
            end.await;
            health.stop();
            // Nobody listens any more if the server broke first.
            let _ = ended.send(());
        };
        let serve = axum::serve(PatientListener::new(self.listener), router).with_graceful_shutdown(end).into_future();
        tokio::select! {
            result = serve => result,
            () = async {
                // An error means that the server is gone, which the other branch reports.
                if wait_for_end.await.is_err() {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(DRAIN_TIMEOUT).await;
            } => Ok(()),
        }
    }
}

async fn answer_metrics(State(shared): State<Shared>) -> Response {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS_CONTENT_TYPE))];
    (headers, shared.metrics.render()).into_response()
}

async fn answer_alive() -> Response {
    json(StatusCode::OK, &serde_json::json!({"alive": true}))
}

async fn answer_ready(State(shared): State<Shared>) -> Response {
    let report = shared.health.report();
    let is_ready = report.get("ready") == Some(&serde_json::Value::Bool(true));
    json(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &report)
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, headers, format!("{body}\n")).into_response()
}
