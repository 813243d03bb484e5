//! Over a real socket, because that is what a probe has.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::clock::SystemClock;
use crate::ids::{CommitSha, SourceName};
use crate::telemetry::Metrics;

/// Nobody has a webhook here.
struct Deaf;

impl HookTarget for Deaf {
    fn is_current(&self, _: &SourceName, _: &CommitSha) -> bool {
        false
    }

    fn fetch(&self, _: &SourceName) {}
}

struct Running {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

async fn start(metrics: Metrics, health: Health) -> Running {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = server.address();
    let (end, ended) = oneshot::channel();
    let hooks = Hooks::new(Vec::new(), Arc::new(Deaf), Arc::new(SystemClock), metrics.clone());
    let served = tokio::spawn(server.serve(metrics, health, hooks, async {
        let _ = ended.await;
    }));
    Running { address, end, served }
}

async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: serin\r\nConnection: close\r\n\r\n");
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let running = start(Metrics::new(), Health::new()).await;
    let (status, head, body) = get(running.address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.contains("serin_build_info{version="), "{body}");
    assert!(body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn ready_says_what_is_missing_until_nothing_is() {
    let health = Health::new();
    let running = start(Metrics::new(), health.clone()).await;
    let cluster = health.check("cluster", "the first lists");
    let source = health.check("source prod", "the first fetch");
    cluster.ready("9 kinds listed");

    let (status, head, body) = get(running.address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(head.contains("content-type: application/json"));
    let report: Value = serde_json::from_str(&body).unwrap();
    insta::assert_json_snapshot!(report, @r#"
    {
      "checks": [
        {
          "detail": "9 kinds listed",
          "name": "cluster",
          "ready": true
        },
        {
          "detail": "the first fetch",
          "name": "source prod",
          "ready": false
        }
      ],
      "ready": false,
      "stopping": false
    }
    "#);
    assert_eq!(get(running.address, "/healthz").await.0, 200);

    source.ready("cannot be fetched: no such host");
    assert_eq!(get(running.address, "/readyz").await.0, 200);
    source.waits_for("another try");
    assert_eq!(get(running.address, "/readyz").await.0, 503);
    assert_eq!(get(running.address, "/nothing").await.0, 404);
}

#[tokio::test]
async fn the_end_waits_for_nobody_who_is_idle_and_unreadies_everything() {
    let health = Health::new();
    let running = start(Metrics::new(), health.clone()).await;
    let idle = TcpStream::connect(running.address).unwrap();
    assert!(health.is_ready());
    running.end.send(()).unwrap();
    running.served.await.unwrap().unwrap();
    assert!(!health.is_ready());
    assert!(TcpStream::connect(running.address).is_err());
    drop(idle);
}

#[tokio::test]
async fn an_address_that_is_taken_is_a_clear_error() {
    let running = start(Metrics::new(), Health::new()).await;
    let error = Server::bind(running.address).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {} for metrics and health; say another one with --listen, or none", running.address)
    );
}
