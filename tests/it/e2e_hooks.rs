//! A git host calls, and Serin looks at once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::support::site::Site;

const SECRET: &str = "a secret of the tests";

fn config_map(namespace: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: one, namespace: {namespace}}}\ndata: {{key: {value}}}\n"
    )
}

/// Delivers a push to `main` and gives back the status of the answer.
fn deliver(port: u16, secret: &str, commit: &str) -> u16 {
    let body = format!(r#"{{"ref": "refs/heads/main", "after": "{commit}"}}"#);
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&body).finalize().into_bytes();
    let signature: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let request = format!(
        "POST /hooks/config HTTP/1.1\r\nHost: serin\r\nConnection: close\r\nContent-Length: {length}\r\n\
         X-GitHub-Event: push\r\nX-Hub-Signature-256: sha256={signature}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_hooks_is_answered_at_once_and_is_one_fetch() {
    let site = Site::empty().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), format!("{SECRET}\n")).unwrap();
    site.clone.push_file("a.yaml", &config_map(&site.namespace, "first"), "one");
    site.start_with_settings(&format!(
        "kubernetes: {{namespaces: [{0}]}}\nsources:\n- name: config\n  repo: {1}\n  webhook: {{secretFile: {2}}}\n",
        site.namespace,
        site.repo(),
        secret.path().display(),
    ))
    .await;
    let has = |value: &'static str| {
        let site = &site;
        async move { site.get("configmaps", "one").await.is_some_and(|map| map["data"]["key"] == value) }
    };
    site.until("the first commit is applied", || has("first")).await;

    let commit = site.clone.push_file("a.yaml", &config_map(&site.namespace, "second"), "two");
    let before = site.server.fetch_requests();
    // The git server keeps silent, so that the first fetch lasts as long as the burst.
    site.server.signal("STOP");
    let burst = std::thread::scope(|scope| {
        let deliver = || (0..25).map(|_| deliver(site.port, SECRET, &commit)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(deliver)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    site.server.signal("CONT");
    assert_eq!(burst, [202; 100]);
    site.until("the second commit is applied", || has("second")).await;
    site.until("nothing waits any more", || async {
        let metrics = site.http("/metrics").unwrap_or_default();
        metrics.lines().any(|line| line == "serin_queue_depth 0")
    })
    .await;
    let fetches = site.server.fetch_requests() - before;
    assert!((1..=2).contains(&fetches), "{fetches} fetches");

    // What is known already costs nothing, and what is not signed neither.
    let before = site.server.fetch_requests();
    assert_eq!(deliver(site.port, SECRET, &commit), 202);
    assert_eq!(deliver(site.port, "another secret", &"f".repeat(40)), 401);
    let metrics = site.http("/metrics").unwrap();
    for line in [
        r#"serin_hooks_total{source="config",result="accepted"} 100"#,
        r#"serin_hooks_total{source="config",result="known"} 1"#,
        r#"serin_hooks_total{source="config",result="refused"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    assert_eq!(site.server.fetch_requests(), before);

    // The secret is changed while Serin runs.
    std::fs::write(secret.path(), "another secret").unwrap();
    let commit = site.clone.push_file("a.yaml", &config_map(&site.namespace, "third"), "three");
    site.until("the new secret counts", || async { deliver(site.port, "another secret", &commit) == 202 }).await;
    site.until("the third commit is applied", || has("third")).await;
    let log = site.log();
    assert!(!log.contains(SECRET) && !log.contains("another secret") && !log.contains("sha256="), "{log}");
}
