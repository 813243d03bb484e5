//! Deliveries over a real socket: what strangers learn, and what they cost.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::sync::oneshot;

use super::*;
use crate::clock::SimulatedClock;
use crate::git::Revision;
use crate::ids::{BranchName, CommitSha, SourceName};
use crate::settings::WebhookSecret;
use crate::telemetry::Metrics;

/// Notes who is fetched, and is at one commit.
#[derive(Default)]
struct Fetches(Mutex<Vec<String>>);

impl HookTarget for Fetches {
    fn is_current(&self, _: &SourceName, commit: &CommitSha) -> bool {
        commit.as_str() == "1".repeat(40)
    }

    fn fetch(&self, source: &SourceName) {
        self.0.lock().unwrap().push(source.to_string());
    }
}

struct Running {
    address: SocketAddr,
    fetches: Arc<Fetches>,
    metrics: Metrics,
    _secret: tempfile::TempDir,
    _end: oneshot::Sender<()>,
}

/// A server with a webhook of the source `prod`, and one of `lost`, whose secret is missing.
async fn start() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, "hunter2\n").unwrap();
    let hooked = |name: &str, path: &std::path::Path| HookedSource {
        name: SourceName::new(name),
        followed: Revision::Branch(BranchName::new("main")),
        secret: WebhookSecret::File(path.to_owned()),
    };
    let sources = vec![hooked("prod", &path), hooked("lost", &folder.path().join("missing"))];
    let (fetches, metrics) = (Arc::new(Fetches::default()), Metrics::new());
    let clock = Arc::new(SimulatedClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
    let hooks = Hooks::new(sources, Arc::clone(&fetches) as Arc<dyn HookTarget>, clock, metrics.clone());
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = server.address();
    let (end, ended) = oneshot::channel::<()>();
    tokio::spawn(server.serve(metrics.clone(), Health::new(), hooks, async {
        let _ = ended.await;
    }));
    Running { address, fetches, metrics, _secret: folder, _end: end }
}

fn signed(body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(b"hunter2").unwrap().chain_update(body).finalize().into_bytes();
    format!("X-Hub-Signature-256: sha256={}\r\n", mac.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

const WRONG: &str = "X-Hub-Signature-256: sha256=0000000000000000000000000000000000000000000000000000000000000000\r\n";

impl Running {
    /// Sends a request as it is and gives back the whole answer but its date.
    async fn raw(&self, request: String) -> String {
        let address = self.address;
        let answer = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            // The server may have answered and hung up before it has all.
            let _unsent = stream.write_all(request.as_bytes());
            let mut answer = Vec::new();
            let _cut = stream.read_to_end(&mut answer);
            String::from_utf8(answer).unwrap()
        });
        let answer = answer.await.unwrap();
        answer.lines().filter(|line| !line.starts_with("date:")).map(|line| format!("{line}\n")).collect()
    }

    async fn post(&self, source: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let head =
            format!("POST /hooks/{source} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n");
        self.raw(format!("{head}{headers}\r\n{body}")).await
    }

    fn fetched(&self) -> Vec<String> {
        self.fetches.0.lock().unwrap().clone()
    }
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
}

#[tokio::test]
async fn an_authentic_push_is_fetched_and_answered_at_once() {
    let running = start().await;
    let body = r#"{"ref": "refs/heads/main"}"#;
    assert_status(&running.post("prod", &signed(body), body).await, 202);
    assert_status(&running.post("prod", "X-Gitlab-Token: hunter2\r\nX-Gitlab-Event: Push Hook\r\n", body).await, 202);
    assert_eq!(running.fetched(), ["prod", "prod"]);

    let ping = running.post("prod", &format!("X-GitHub-Event: ping\r\n{}", signed("{}")), "{}").await;
    assert_status(&ping, 200);
    assert!(ping.ends_with("pong\n"), "{ping}");
    let elsewhere = r#"{"ref": "refs/heads/serin/status/prod"}"#;
    assert_status(&running.post("prod", &signed(elsewhere), elsewhere).await, 202);
    let known = format!(r#"{{"ref": "refs/heads/main", "after": "{}"}}"#, "1".repeat(40));
    assert_status(&running.post("prod", &signed(&known), &known).await, 202);
    assert_eq!(running.fetched().len(), 2);

    let metrics = running.metrics.render();
    for line in [
        r#"serin_hooks_total{source="prod",result="accepted"} 2"#,
        r#"serin_hooks_total{source="prod",result="ping"} 1"#,
        r#"serin_hooks_total{source="prod",result="not_followed"} 1"#,
        r#"serin_hooks_total{source="prod",result="known"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn strangers_cannot_tell_which_sources_there_are() {
    let running = start().await;
    let refused = running.post("prod", WRONG, "{}").await;
    assert_status(&refused, 401);
    for (source, headers) in [
        ("prod", ""),
        ("prod", "X-Gitlab-Token: wrong\r\n"),
        ("lost", WRONG),
        ("lost", &signed("{}")),
        ("nobody", WRONG),
        ("nobody", &signed("{}")),
        ("nobody", ""),
        ("NOT%20A%20NAME", WRONG),
    ] {
        assert_eq!(running.post(source, headers, "{}").await, refused, "{source} {headers}");
    }
    let long = "x".repeat((1 << 20) + 1);
    let too_long = running.post("prod", WRONG, &long).await;
    assert_status(&too_long, 413);
    assert_eq!(running.post("nobody", WRONG, &long).await, too_long);
    let other_method =
        |source: &str| running.raw(format!("GET /hooks/{source} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let not_allowed = other_method("prod").await;
    assert_status(&not_allowed, 405);
    assert_eq!(other_method("nobody").await, not_allowed);

    assert_eq!(running.fetched(), Vec::<String>::new());
    let metrics = running.metrics.render();
    assert!(metrics.contains(r#"serin_hooks_total{source="prod",result="refused"} 3"#), "{metrics}");
    // Names that strangers make up are no labels.
    assert!(metrics.contains(r#"serin_hooks_total{source="",result="refused"} 4"#), "{metrics}");
    assert!(!metrics.contains("nobody"), "{metrics}");
}

#[tokio::test]
async fn what_nothing_could_prove_is_refused_without_its_body() {
    let running = start().await;
    // The body is announced and never sent.
    let head = "POST /hooks/prod HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000000\r\n";
    assert_status(&running.raw(format!("{head}\r\n")).await, 401);
    assert_status(&running.raw(format!("{head}X-Gitlab-Token: wrong\r\n\r\n")).await, 401);
    assert_status(&running.raw(format!("{head}{WRONG}\r\n")).await, 413);
}

#[tokio::test]
async fn a_body_without_a_length_is_read_to_the_limit_and_no_further() {
    let running = start().await;
    let head = format!(
        "POST /hooks/prod HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{WRONG}\r\n"
    );
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
    // Endless, as far as the server knows.
    assert_status(&running.raw(format!("{head}{}", chunk.repeat(17))).await, 413);
}

#[tokio::test]
async fn bodies_that_do_not_come_hold_up_nobody_for_long() {
    let running = start().await;
    let head =
        format!("POST /hooks/prod HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100\r\n{WRONG}\r\n");
    let (first, all) = tokio::join!(
        running.raw(format!("{head}begun")),
        futures::future::join_all((0..40).map(|_| running.raw(head.clone()))),
    );
    // Whoever had a turn was too slow, the others found no turn.
    let is_cut = |answer: &String| answer.starts_with("HTTP/1.1 408 ") || answer.starts_with("HTTP/1.1 503 ");
    assert!(is_cut(&first) && all.iter().all(is_cut), "{first} {all:?}");
    let body = r#"{"ref": "refs/heads/main"}"#;
    assert_status(&running.post("prod", &signed(body), body).await, 202);
}
