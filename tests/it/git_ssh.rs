//! A repository behind a real `sshd`: keys, host keys, and servers that say nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serin::git::mirror::{Mirror, MirrorSettings};
use serin::git::{
    Access, Author, NetworkLimits, NewCommit, Publication, PublishOutcome, Repository, Revision, SecretPlace,
    limit_network,
};
use serin::ids::{BranchName, TreePath};

use super::support::git_remotes::{NAME, Real, Remote as _, Way, noon};
use super::support::git_server::Protocol;
use super::support::middleman::Middleman;
use super::support::{process, ssh_server};

const SSH: Way = Way::Server(Protocol::Ssh);

#[tokio::test]
async fn keys_of_all_usual_kinds_get_in() {
    let remote = Real::new(SSH);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    for name in ["ed25519", "ecdsa", "rsa", "pem"] {
        let access = Access { private_key: Some(ssh_server::client_key(name)), ..remote.access() };
        assert_eq!(open(&remote.url(), access).fetch().await, Ok(tip.clone()), "{name}");
    }
    let folder = process::scratch("secret");
    fs::write(folder.join("phrase"), format!("{}\n", ssh_server::PASSPHRASE)).unwrap();
    let locked = Access {
        private_key: Some(ssh_server::client_key("locked")),
        passphrase: Some(SecretPlace::File(folder.join("phrase"))),
        ..remote.access()
    };
    assert_eq!(open(&remote.url(), locked).fetch().await, Ok(tip.clone()));
    // A mounted Secret of the kind that Flux makes.
    fs::copy(ssh_server::client_key("ed25519"), folder.join("identity")).unwrap();
    fs::copy(remote.access().known_hosts.unwrap(), folder.join("known_hosts")).unwrap();
    let mounted = Access { folder: Some(folder), ..Access::default() };
    assert_eq!(open(&remote.url(), mounted).fetch().await, Ok(tip));
}

#[tokio::test]
async fn the_short_form_of_an_address_starts_in_the_home_folder() {
    let remote = Real::new(SSH);
    let access = remote.access();
    // Nobody listens on port 22 of this name: only what is said of it counts.
    let error = open("git@host.invalid:team/shop.git", access).fetch().await.unwrap_err();
    assert_eq!(error.kind(), "unreachable");
    assert!(error.to_string().starts_with("git@host.invalid:team/shop.git cannot be reached: its name"), "{error}");
}

#[tokio::test]
async fn a_key_that_does_not_fit_is_said_with_its_file() {
    let remote = Real::new(SSH);
    remote.commit("main", &[("a", Some("1"))], "one");
    let with = |key: PathBuf| Access { private_key: Some(key), ..remote.access() };
    let stranger = ssh_server::client_key("stranger");
    let error = open(&remote.url(), with(stranger.clone())).fetch().await.unwrap_err();
    let user = ssh_server::user();
    let why = format!("it does not take the key of {} for the user {user}", stranger.display());
    assert_eq!((error.kind(), error.to_string().ends_with(&why)), ("unauthorized", true), "{error}");

    let nonsense = process::scratch("secret").join("key");
    fs::write(&nonsense, "s3cret nonsense").unwrap();
    for key in [nonsense, ssh_server::client_key("locked")] {
        let shown = key.display().to_string();
        let error = open(&remote.url(), with(key)).fetch().await.unwrap_err();
        assert_eq!(error.kind(), "credentials", "{error}");
        assert!(error.to_string().contains(&format!("the key of {shown} cannot be read")), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"));
    }
    let error = open(&remote.url(), with("/nothing/here".into())).fetch().await.unwrap_err();
    assert!(error.to_string().contains("the file /nothing/here cannot be read: No such file"), "{error}");
}

#[tokio::test]
async fn an_unknown_host_is_refused_with_the_line_that_trusts_it() {
    let remote = Real::new(SSH);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let file = process::scratch("known").join("known_hosts");
    let access = Access { known_hosts: Some(file.clone()), ..remote.access() };
    let view = open(&remote.url(), access);
    let error = view.fetch().await.unwrap_err();
    assert_eq!(error.kind(), "untrusted");
    let text = error.to_string();
    assert!(text.contains(&format!("add this line to {}: [127.0.0.1]:", file.display())), "{text}");
    assert!(text.contains(&fingerprint("ed25519")), "{text}");
    let line = text.rsplit_once("known_hosts: ").unwrap().1;
    fs::write(&file, format!("{line}\n")).unwrap();
    assert_eq!(view.fetch().await, Ok(tip));
}

#[tokio::test]
async fn any_one_of_the_keys_of_a_host_is_enough_and_names_may_be_hashed() {
    let remote = Real::new(SSH);
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    for kind in ssh_server::HOST_KEYS {
        let file = process::scratch("known").join("known_hosts");
        fs::write(&file, ssh_server::known_line(kind, remote.server.port())).unwrap();
        let access = Access { known_hosts: Some(file.clone()), ..remote.access() };
        assert_eq!(open(&remote.url(), access.clone()).fetch().await, Ok(tip.clone()), "{kind}");
        let hashed = Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(&file).output().expect("ssh-keygen");
        assert!(hashed.status.success());
        assert!(fs::read_to_string(&file).unwrap().starts_with("|1|"));
        assert_eq!(open(&remote.url(), access).fetch().await, Ok(tip.clone()), "{kind}, hashed");
    }
}

#[tokio::test]
async fn a_changed_or_revoked_host_key_is_refused_and_nothing_is_sent() {
    let remote = Real::new(SSH);
    remote.commit("main", &[("a", Some("1"))], "one");
    let port = remote.server.port();
    let line = ssh_server::known_line("ed25519", port);
    let file = process::scratch("known").join("known_hosts");
    let view = open(&remote.url(), Access { known_hosts: Some(file.clone()), ..remote.access() });

    let other = fs::read_to_string(ssh_server::client_key("stranger").with_extension("pub")).unwrap();
    fs::write(&file, format!("[127.0.0.1]:{port} {other}")).unwrap();
    let text = view.fetch().await.unwrap_err().to_string();
    assert!(text.contains("its host key has changed"), "{text}");
    assert!(text.contains(&fingerprint("ed25519")) && text.ends_with(line.trim()), "{text}");
    assert_eq!(text.matches("SHA256:").count(), 2, "{text}");

    fs::write(&file, format!("{line}@revoked * {}", line.split_once(' ').unwrap().1)).unwrap();
    let text = view.fetch().await.unwrap_err().to_string();
    assert!(text.contains("is marked as revoked in"), "{text}");
}

#[tokio::test]
async fn a_missing_repository_is_not_there_and_a_hook_may_refuse() {
    let remote = Real::new(SSH);
    let error = open(&remote.url().replace(NAME, "nothing-here"), remote.access()).fetch().await.unwrap_err();
    assert_eq!(error.kind(), "not_found", "{error}");
    let tip = remote.commit("main", &[("a", Some("1"))], "one");
    let words = remote.refuse_pushes();
    let view = open(&remote.url(), remote.access());
    view.fetch().await.unwrap();
    let edits = [(TreePath::new("a"), Some(b"2".to_vec()))].into();
    let author = Author { name: "Serin".to_owned(), email: "serin@example.com".to_owned() };
    let commits = vec![NewCommit { message: "two\n".to_owned(), author, at: noon(), edits }];
    let publication = Publication { branch: BranchName::new("main"), parent: Some(tip), commits };
    match view.publish(&publication).await {
        Ok(PublishOutcome::Refused { why }) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    }
    remote.accept_pushes();
    let outcome = view.publish(&publication).await;
    assert!(matches!(outcome, Ok(PublishOutcome::Published(_))), "{outcome:?}");
}

/// The limits are of the whole process, so this runs in one of its own.
#[test]
fn a_silent_ssh_server_is_unreachable_within_the_limit() {
    if !process::is_alone("git_ssh::a_silent_ssh_server_is_unreachable_within_the_limit") {
        return;
    }
    let short = Duration::from_millis(300);
    limit_network(NetworkLimits { connect: short, silence: short, total: Duration::from_secs(60) });
    let silent = Middleman::silent();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let access = ssh_server::access(1);
    let view = open(&format!("ssh://git@{}/shop.git", silent.authority()), access);
    let error = runtime.block_on(view.fetch()).unwrap_err();
    assert_eq!(error.kind(), "unreachable", "{error}");
    assert!(error.to_string().contains("timed out"), "{error}");
}

#[track_caller]
fn open(url: &str, access: Access) -> Mirror {
    let folder = process::scratch("mirrors").join("shop");
    let revision = Revision::Branch(BranchName::new("main"));
    Mirror::open(MirrorSettings { url: url.to_owned(), revision, folder, access }).expect("a mirror")
}

/// The fingerprint of a host key, as people compare it.
fn fingerprint(kind: &str) -> String {
    let file: PathBuf = ssh_server::host_key(kind);
    let output = Command::new("ssh-keygen").arg("-lf").arg(Path::new(&file)).output().expect("ssh-keygen");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.split(' ').nth(1).expect("a fingerprint").to_owned()
}
