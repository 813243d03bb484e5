//! A repository behind https and proxies: credentials that change, certificates that are not good, redirects.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use serin::git::mirror::{Mirror, MirrorSettings};
use serin::git::{
    Access, Author, NewCommit, Proxy, Publication, PublishOutcome, Repository, RepositoryError, Revision, Secret,
    SecretPlace, TokenScheme,
};
use serin::ids::{BranchName, CommitSha, TreePath};

use super::support::certificates::{self, Shown};
use super::support::forward_proxy::ForwardProxy;
use super::support::git_remotes::{NAME, Real, Remote as _, Way, noon};
use super::support::git_server::Protocol;
use super::support::middleman::{Act, Middleman};
use super::support::process::{self, Running};
use super::support::until;

const HTTP: Way = Way::Server(Protocol::Http);
const HTTPS: Way = Way::Server(Protocol::Https(Shown::Good));

#[tokio::test]
async fn a_private_authority_is_trusted_for_the_source_that_names_it_and_for_no_other() {
    let remote = Real::new(HTTPS);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    assert_eq!(open(&remote.url(), remote.access()).fetch().await, Ok(tip.clone()));
    let other = open(&remote.url(), Access::default()).fetch().await.unwrap_err();
    assert_eq!(other.kind(), "untrusted");
    assert_eq!(
        other.to_string(),
        format!(
            "{} is not trusted: its certificate is self-signed, or signed by an authority that is not known here; if it \
             is the right one, give the authority's certificate as caFile",
            remote.url()
        )
    );
    // And the order does not matter: nothing of the first call is left in the process.
    assert_eq!(open(&remote.url(), remote.access()).fetch().await, Ok(tip));
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_said() {
    for (shown, why) in [
        (Shown::Expired, "its certificate has expired on 2002-02-03"),
        (Shown::OtherHost, "its certificate is not for 127.0.0.1 but for "),
        (Shown::SelfSigned, "its certificate is self-signed, or signed by an authority that is not known here"),
    ] {
        let remote = Real::new(Way::Server(Protocol::Https(shown)));
        remote.commit("main", &[("a", Some("1"))], "one");
        let error = open(&remote.url(), remote.access()).fetch().await.unwrap_err();
        assert_eq!(error.kind(), "untrusted", "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_self_signed_certificate_that_is_named_is_trusted() {
    let remote = Real::new(Way::Server(Protocol::Https(Shown::SelfSigned)));
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let access = Access { ca_file: Some(certificates::write(remote.server.certificate())), ..Access::default() };
    assert_eq!(open(&remote.url(), access).fetch().await, Ok(tip));
}

#[tokio::test]
async fn an_authority_file_that_changes_counts_at_the_next_call() {
    let remote = Real::new(HTTPS);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let file = certificates::write("nonsense");
    let view = open(&remote.url(), Access { ca_file: Some(file.clone()), ..Access::default() });
    let error = view.fetch().await.unwrap_err();
    assert_eq!(error.kind(), "credentials");
    assert!(error.to_string().ends_with("ca.crt holds no certificate"), "{error}");
    fs::copy(certificates::authority_file(), &file).unwrap();
    assert_eq!(view.fetch().await, Ok(tip));
}

#[tokio::test]
async fn a_rotated_token_works_at_the_next_call_and_a_wrong_one_is_said_with_its_file() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    // "x-access-token:n3w-t0ken"
    let door = door(&remote, "Basic eC1hY2Nlc3MtdG9rZW46bjN3LXQwa2Vu", "401 Unauthorized");
    let folder = process::scratch("secret");
    let file = folder.join("token");
    fs::write(&file, "0ld-t0ken\n").unwrap();
    let token = Some(SecretPlace::File(file.clone()));
    let view = open(&through(&door), Access { token, ..Access::default() });
    let error = view.fetch().await.unwrap_err();
    let shown = file.display();
    assert_eq!(
        error.to_string(),
        format!("{} refuses the credentials: it says 401 Unauthorized to the token of {shown}", through(&door))
    );
    // A mounted Secret changes by a link that is moved.
    fs::write(folder.join("new"), "n3w-t0ken\n").unwrap();
    fs::rename(folder.join("new"), &file).unwrap();
    assert_eq!(view.fetch().await, Ok(tip));
    fs::remove_file(&file).unwrap();
    let error = view.fetch().await.unwrap_err();
    assert_eq!(error.kind(), "credentials");
    assert!(error.to_string().contains("token cannot be read: No such file"), "{error}");
}

#[tokio::test]
async fn a_token_goes_as_bearer_where_that_is_asked_for() {
    let remote = Real::new(HTTP);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let door = door(&remote, "Bearer t0ken", "401 Unauthorized");
    let folder = process::scratch("secret");
    fs::write(folder.join("bearerToken"), "t0ken").unwrap();
    let token = Some(SecretPlace::File(folder.join("bearerToken")));
    let said = Access { token, token_scheme: TokenScheme::Bearer, ..Access::default() };
    for access in [said, Access { folder: Some(folder), ..Access::default() }] {
        assert_eq!(open(&through(&door), access).fetch().await, Ok(tip.clone()));
    }
}

#[tokio::test]
async fn refusals_are_told_apart_in_words_and_show_no_secret() {
    let remote = Real::new(HTTP);
    for (status, access, kind, words) in [
        (
            "401 Unauthorized",
            Access::default(),
            "unauthorized",
            "it says 401 Unauthorized, and no credentials are given",
        ),
        (
            "403 Forbidden",
            Access::basic("ann", "s3cret"),
            "unauthorized",
            "it says 403 Forbidden to the password of the address: may it read this repository?",
        ),
        ("404 Not Found", Access::basic("ann", "s3cret"), "not_found", "the repository is not there in"),
        ("500 s3cret", Access::basic("ann", "s3cret"), "unreachable", "http status 500 Internal Server Error"),
        ("200 OK", Access::basic("ann", "s3cret"), "unreachable", "it answers with nothing, which is no git"),
    ] {
        let door = door(&remote, "never", status);
        let view = open(&through(&door), access);
        let error = view.fetch().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{status}: {error}");
        assert!(error.to_string().contains(words), "{status}: {error}");
        // "ann:s3cret"
        for secret in ["s3cret", "YW5uOnMzY3JldA"] {
            assert!(!format!("{error} {error:?} {view:?}").contains(secret), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_daemon_says_no_secret_anywhere_and_takes_a_new_token_without_a_restart() {
    let remote = Real::new(HTTP);
    remote.commit("main", &[("a.txt", Some("1"))], "one");
    // "x-access-token:n3w-t0ken"
    let door = door(&remote, "Basic eC1hY2Nlc3MtdG9rZW46bjN3LXQwa2Vu", "401 Unauthorized");
    let folder = process::scratch("daemon");
    let (token, log, port) = (folder.join("token"), folder.join("log"), process::free_port());
    fs::write(&token, "0ld-t0ken").unwrap();
    let arguments = [
        "run".to_owned(),
        "--simulate".to_owned(),
        format!("--repo={}", through(&door)),
        format!("--token-file={}", token.display()),
        format!("--mirror-dir={}", folder.join("mirrors").display()),
        format!("--listen=127.0.0.1:{port}"),
        "--log-level=trace".to_owned(),
        "--log-format=json".to_owned(),
    ];
    let daemon = Running::start(Path::new(env!("CARGO_BIN_EXE_serin")), &arguments, log.clone());
    let said = || fs::read_to_string(&log).unwrap_or_default();
    until("the refusal is in the log", || async { said().contains("it says 401 Unauthorized to the token of") }).await;
    let mut all = said();
    for path in ["metrics", "readyz", "healthz"] {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_string(&mut all).unwrap();
    }
    door.take_seen();
    fs::write(&token, "n3w-t0ken").unwrap();
    daemon.signal("HUP");
    until("the new token gets in", || async {
        door.take_seen().iter().any(|line| line.starts_with("POST") && line.ends_with("git-upload-pack"))
    })
    .await;
    drop(daemon);
    all += &said();
    // As they are, and as they are sent.
    for secret in ["0ld-t0ken", "n3w-t0ken", "eC1hY2Nlc3MtdG9rZW46MGxk", "eC1hY2Nlc3MtdG9rZW46bjN3"] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_says_where_to() {
    let remote = Real::new(HTTP);
    remote.commit("main", &[("a", Some("1"))], "one");
    let status =
        "301 Moved Permanently\r\nLocation: https://new.example/team/shop.git/info/refs?service=git-upload-pack";
    let door = door(&remote, "never", status);
    let error = open(&through(&door), Access::default()).fetch().await.unwrap_err();
    let words = "it redirects to https://new.example/team/shop.git, and redirects are not followed; write that address";
    assert!(error.to_string().ends_with(words), "{error}");
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_taken_for_all_hosts_but_those_of_no_proxy() {
    let remote = Real::new(HTTPS);
    remote.commit("main", &[("map.yaml", Some("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n"))], "one");
    let ca = certificates::authority_file().display().to_string();
    let url = remote.url();
    let authority = url.trim_start_matches("https://").split('/').next().unwrap().to_owned();
    for (no_proxy, seen) in [("git.example", vec![format!("CONNECT {authority}")]), ("127.0.0.1", Vec::new())] {
        let proxy = ForwardProxy::start(None);
        let folder = process::scratch("proxied");
        let (log, mirrors) = (folder.join("log"), folder.join("mirrors").display().to_string());
        let proxied = format!("HTTPS_PROXY=http://{}", proxy.authority());
        let command = [
            "--ignore-environment",
            &proxied,
            &format!("NO_PROXY={no_proxy}"),
            env!("CARGO_BIN_EXE_serin"),
            "run",
            "--simulate",
            "--listen=none",
            "--no-status-branch",
            "--default-namespace=shop",
            &format!("--repo={url}"),
            &format!("--ca-file={ca}"),
            &format!("--mirror-dir={mirrors}"),
        ];
        let daemon = Running::start(Path::new("/usr/bin/env"), &command.map(str::to_owned), log.clone());
        until("it has fetched", || async {
            fs::read_to_string(&log).unwrap_or_default().contains("the repository is fetched")
        })
        .await;
        drop(daemon);
        let mut connections = proxy.take_seen();
        connections.dedup();
        assert_eq!(connections, seen, "NO_PROXY={no_proxy}: {}", fs::read_to_string(&log).unwrap());
    }
}

#[tokio::test]
async fn a_proxy_carries_https_and_http_and_what_it_says_is_told() {
    for way in [HTTPS, HTTP] {
        let remote = Real::new(way);
        let tip = remote.commit("main", &[("a", Some("1"))], "one");
        // "ann:s3cret"
        let proxy = ForwardProxy::start(Some("Basic YW5uOnMzY3JldA=="));
        let by = |login: &str| {
            let url = Secret::new(format!("http://{login}{}", proxy.authority()));
            Access { proxy: Proxy::Through { url, shown: "the proxy".to_owned() }, ..remote.access() }
        };
        assert_eq!(open(&remote.url(), by("ann:s3cret@")).fetch().await, Ok(tip.clone()), "{way:?}");
        let authority = remote.url().split('/').nth(2).unwrap().to_owned();
        let seen = proxy.take_seen();
        let wanted = if way == HTTPS { format!("CONNECT {authority}") } else { format!("GET http://{authority}/") };
        assert!(!seen.is_empty() && seen[0].starts_with(&wanted), "{seen:?}");

        let error = open(&remote.url(), by("ann:wr0ng@")).fetch().await.unwrap_err();
        assert!(error.to_string().contains("proxy"), "{way:?}: {error}");
        assert!(!format!("{error:?}").contains("wr0ng"), "{error:?}");
        proxy.take_seen();
        let direct = Access { proxy: Proxy::Direct, ..remote.access() };
        assert_eq!(open(&remote.url(), direct).fetch().await, Ok(tip), "{way:?}");
        assert_eq!(proxy.take_seen(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_fresh_mirror_has_no_past_and_learns_it_only_when_it_must() {
    for way in [HTTP, Way::Server(Protocol::Git), Way::Server(Protocol::Ssh)] {
        let remote = Real::new(way);
        let commits: Vec<CommitSha> =
            (0..5).map(|n| remote.commit("main", &[("a", Some(&n.to_string()))], "next")).collect();
        let folder = process::scratch("mirrors").join("shop");
        let view = remote.mirror_in(main(), folder.clone());
        let tip = view.fetch().await.unwrap();
        assert_eq!(tip, commits[4]);
        let is_cut_off = || folder.join("shallow").exists();
        assert!(is_cut_off(), "{way:?}");
        // What happens from now on is known without the past.
        let next = remote.commit("main", &[("a", Some("0"))], "as long ago");
        assert_eq!(view.fetch().await, Ok(next.clone()), "{way:?}");
        assert_eq!(view.contains(&next, &tip).await, Ok(true));
        assert!(is_cut_off(), "{way:?}");
        let file = view.snapshot(&next, &TreePath::new("")).await.unwrap();
        let blobs: Vec<_> = file.files.values().cloned().collect();
        assert_eq!(view.read(&blobs, 100).await.unwrap()[0].as_deref(), Some(b"0".as_slice()), "{way:?}");
        // So a decision can be written down.
        let edits = [(TreePath::new("a"), Some(b"decided".to_vec()))].into();
        let author = Author { name: "Serin".to_owned(), email: "serin@example.com".to_owned() };
        let decision = vec![NewCommit { message: "decide\n".to_owned(), author, at: noon(), edits }];
        let publication =
            Publication { branch: BranchName::new("main"), parent: Some(next.clone()), commits: decision };
        let outcome = view.publish(&publication).await;
        assert!(matches!(outcome, Ok(PublishOutcome::Published(_))), "{way:?}: {outcome:?}");
        assert!(is_cut_off(), "{way:?}");
        remote.server.git(NAME, &["fsck", "--strict", "--no-dangling"]);
        assert_eq!(remote.log("main").len(), 7, "{way:?}");
        // A branch that is put back is followed.
        remote.force_push("main", &commits[1]);
        assert_eq!(view.fetch().await, Ok(commits[1].clone()), "{way:?}");
        // The past is asked for.
        assert_eq!(view.contains(&next, &commits[0]).await, Ok(true), "{way:?}");
        assert!(!is_cut_off(), "{way:?}");
        assert_eq!(view.contains(&commits[0], &next).await, Ok(false), "{way:?}");
        // It stays whole.
        let last = remote.commit("main", &[("b", Some("1"))], "last");
        assert_eq!(view.fetch().await, Ok(last.clone()), "{way:?}");
        assert_eq!(view.contains(&last, &commits[0]).await, Ok(true), "{way:?}");
    }
}

#[tokio::test]
async fn an_old_commit_can_be_read_from_a_mirror_without_a_past() {
    let remote = Real::new(HTTP);
    let first = remote.commit("main", &[("a", Some("1"))], "one");
    remote.commit("main", &[("a", None), ("b", Some("2"))], "two");
    let view = open(&remote.url(), Access::default());
    view.fetch().await.unwrap();
    assert_eq!(view.snapshot(&first, &TreePath::new("")).await.unwrap().files.len(), 1);
}

fn main() -> Revision {
    Revision::Branch(BranchName::new("main"))
}

#[track_caller]
fn open(url: &str, access: Access) -> Mirror {
    let folder = process::scratch("mirrors").join("shop");
    Mirror::open(MirrorSettings { url: url.to_owned(), revision: main(), folder, access }).expect("a mirror")
}

/// Somebody in front of the server who lets through who shows this `Authorization`, and answers everybody else.
fn door(remote: &Real, authorization: &'static str, answer: &'static str) -> Middleman {
    let server = remote.url().split('/').nth(2).expect("a URL").to_owned();
    Middleman::before(&server, move |head| {
        let is_let_in = head.lines().any(|line| {
            let (name, value) = line.split_once(": ").unwrap_or_default();
            name.eq_ignore_ascii_case("authorization") && value == authorization
        });
        if is_let_in { Act::Forward } else { Act::Answer(answer) }
    })
}

fn through(door: &Middleman) -> String {
    format!("http://{}/{NAME}.git", door.authority())
}

#[test]
fn all_kinds_of_error_have_names_for_metrics() {
    let (address, why) = ("a".to_owned(), "w".to_owned());
    let untrusted = RepositoryError::Untrusted { address: address.clone(), why: why.clone() };
    let unusable = RepositoryError::Credentials { address, why };
    assert_eq!((untrusted.kind(), unusable.kind()), ("untrusted", "credentials"));
}
