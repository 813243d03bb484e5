//! What makes a delivery authentic, and what it then says.

use base64::Engine as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::hook::*;
use crate::git::Revision;
use crate::ids::{BranchName, CommitSha};

fn secret() -> HookSecret {
    HookSecret::new(b"It's a Secret to Everybody\n").unwrap()
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(text).finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn signed(body: &[u8]) -> String {
    hex(&mac(b"It's a Secret to Everybody", body))
}

fn read(headers: &[(&str, &str)], body: &str) -> Result<Hook, NotAuthentic> {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    read_hook(&headers, body.as_bytes(), &secret())
}

#[test]
fn the_example_of_github_is_authentic() {
    // From GitHub's documentation of webhooks.
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(read(&[("x-hub-signature-256", signature)], "Hello, World!"), Ok(Hook::Other));
    assert_eq!(read(&[("x-hub-signature-256", signature)], "Hello, World?"), Err(NotAuthentic));
}

#[test]
fn each_host_is_believed_in_its_own_way() {
    let body = "{}";
    let bare = signed(body.as_bytes());
    let prefixed = format!("sha256={bare}");
    for (name, value) in [
        ("x-hub-signature-256", prefixed.as_str()),
        ("x-gitea-signature", &bare),
        ("x-forgejo-signature", &bare),
        ("x-signature-256", &prefixed),
        ("x-signature", &prefixed),
        ("x-signature", &bare.to_uppercase()),
        ("x-gitlab-token", "It's a Secret to Everybody"),
    ] {
        assert_eq!(read(&[(name, value)], body), Ok(Hook::Other), "{name}");
    }
}

#[test]
fn standard_webhooks_are_signed_over_id_time_and_body() {
    let key = [7_u8; 24];
    let base64 = base64::engine::general_purpose::STANDARD;
    let secret = HookSecret::new(format!("whsec_{}\n", base64.encode(key)).as_bytes()).unwrap();
    let signature = format!("v1,{}", base64.encode(mac(&key, b"id.1700000000.{}")));
    let read = |id: &str, signature: &str, body: &[u8]| {
        let headers: [(&str, &[u8]); 3] = [
            ("webhook-id", id.as_bytes()),
            ("webhook-timestamp", b"1700000000"),
            ("webhook-signature", signature.as_bytes()),
        ];
        read_hook(&headers, body, &secret)
    };
    assert_eq!(read("id", &signature, b"{}"), Ok(Hook::Other));
    // While keys are rotated there are several.
    let other = format!("v1,{} v1a,x {signature}", base64.encode([0_u8; 32]));
    assert_eq!(read("id", &other, b"{}"), Ok(Hook::Other));
    assert_eq!(read("other", &signature, b"{}"), Err(NotAuthentic));
    assert_eq!(read("id", &signature, b"[]"), Err(NotAuthentic));
    assert_eq!(read("id", signature.strip_prefix("v1,").unwrap(), b"{}"), Err(NotAuthentic));
    let headers: [(&str, &[u8]); 1] = [("webhook-signature", signature.as_bytes())];
    assert_eq!(read_hook(&headers, b"{}", &secret), Err(NotAuthentic));
}

#[test]
fn nothing_else_is_authentic() {
    let body = "{}";
    let good = signed(body.as_bytes());
    let other = hex(&mac(b"another secret", body.as_bytes()));
    for headers in [
        &[][..],
        &[("x-hub-signature-256", "")],
        &[("x-hub-signature-256", "sha256=")],
        &[("x-hub-signature-256", &other)],
        &[("x-hub-signature-256", &good[1..])],
        &[("x-hub-signature-256", &format!("{good}0"))],
        &[("x-hub-signature-256", &format!("{good}00"))],
        &[("x-hub-signature-256", &format!("sha1={good}"))],
        &[("x-hub-signature-256", &"é".repeat(32))],
        // SHA-1 is not enough, whoever sends it.
        &[("x-hub-signature", &format!("sha1={}", &good[..40]))],
        &[("x-gitlab-token", "")],
        &[("x-gitlab-token", "It's a Secret to Everybod")],
        &[("x-gitlab-token", "It's a Secret to Everybody\n")],
        &[("x-gitlab-token", &good)],
        &[("authorization", "It's a Secret to Everybody")],
    ] {
        assert_eq!(read(headers, body), Err(NotAuthentic), "{headers:?}");
    }
}

#[test]
fn the_body_is_not_needed_where_nothing_could_prove_anything() {
    let open = |headers: &[(&str, &[u8])]| open(headers, &secret());
    assert_eq!(open(&[]), Opening::Refused);
    assert_eq!(open(&[("x-gitlab-token", b"wrong")]), Opening::Refused);
    assert_eq!(open(&[("x-hub-signature-256", b"sha256=short")]), Opening::Refused);
    assert_eq!(open(&[("x-gitlab-token", b"It's a Secret to Everybody")]), Opening::Proven);
    assert!(matches!(open(&[("x-gitea-signature", "0".repeat(64).as_bytes())]), Opening::Signed(_)));
}

#[test]
fn a_secret_is_not_empty_and_not_printed() {
    for nothing in ["", "\r\n\n", " ", "\t \r\n"] {
        assert_eq!(HookSecret::new(nothing.as_bytes()), Err(NoSecret::Empty), "{nothing:?}");
    }
    assert_eq!(HookSecret::new(b" a \r\n"), HookSecret::new(b" a "));
    assert_eq!(format!("{:?}", secret()), "HookSecret(***)");
}

#[test]
fn nobody_signs_with_the_empty_key_of_a_standard_webhook() {
    for (text, why) in [
        ("whsec_", NoSecret::NoKey),
        ("whsec_\n", NoSecret::NoKey),
        ("whsec_ ", NoSecret::NoKey),
        ("whsec_====", NoSecret::NotBase64),
        ("whsec_not base64", NoSecret::NotBase64),
    ] {
        assert_eq!(HookSecret::new(text.as_bytes()), Err(why), "{text:?}");
    }
}

fn authentic(headers: &[(&str, &str)], body: &str) -> Hook {
    let signature = signed(body.as_bytes());
    read(&[headers, &[("x-hub-signature-256", &signature)]].concat(), body).unwrap()
}

#[test]
fn a_delivery_says_what_was_moved() {
    let sha = "AB".repeat(20);
    let after = Some(CommitSha::new("ab".repeat(20)));
    let main = || Moved::Branch("main".into());
    for (body, expected) in [
        (format!(r#"{{"ref": "refs/heads/main", "after": "{sha}"}}"#), Hook::Push { moved: main(), after }),
        (r#"{"ref": "refs/heads/main"}"#.into(), Hook::Push { moved: main(), after: None }),
        (r#"{"ref": "refs/heads/main", "after": "x"}"#.into(), Hook::Push { moved: main(), after: None }),
        (
            r#"{"ref": "refs/tags/v1", "after": null}"#.into(),
            Hook::Push { moved: Moved::Tag("v1".into()), after: None },
        ),
        // Not a push, or none that is understood: a reason to look.
        (r#"{"ref": "main", "ref_type": "branch"}"#.into(), Hook::Other),
        (r#"{"ref": 1}"#.into(), Hook::Other),
        ("payload=%7B%7D".into(), Hook::Other),
        (String::new(), Hook::Other),
        ("[".repeat(100_000), Hook::Other),
    ] {
        assert_eq!(authentic(&[("x-github-event", "push")], &body), expected, "{body:.40}");
    }
    assert_eq!(authentic(&[("x-github-event", "ping")], r#"{"zen": "x"}"#), Hook::Ping);
}

#[test]
fn only_what_is_followed_and_new_is_fetched() {
    let main = Revision::Branch(BranchName::new("main"));
    let tag = Revision::Tag("main".into());
    let commit = Revision::Commit(CommitSha::new("ab".repeat(20)));
    let pushed = |moved: Moved, after: &str| Hook::Push { moved, after: Some(CommitSha::new(after)) };
    let branch = |name: &str| Moved::Branch(name.into());
    let is_at_1 = |commit: &CommitSha| commit.as_str() == "1";
    for (hook, followed, reaction) in [
        (Hook::Ping, &main, Reaction::Pong),
        (Hook::Other, &main, Reaction::Fetch),
        (pushed(branch("main"), "2"), &main, Reaction::Fetch),
        (pushed(branch("main"), "1"), &main, Reaction::Known),
        (Hook::Push { moved: branch("main"), after: None }, &main, Reaction::Fetch),
        (pushed(branch("serin/status/prod"), "2"), &main, Reaction::NotFollowed),
        (pushed(branch("main2"), "1"), &main, Reaction::NotFollowed),
        (pushed(Moved::Tag("main".into()), "2"), &main, Reaction::NotFollowed),
        (pushed(Moved::Tag("main".into()), "2"), &tag, Reaction::Fetch),
        (pushed(branch("main"), "2"), &tag, Reaction::NotFollowed),
        (pushed(branch("any"), "2"), &commit, Reaction::Fetch),
        (pushed(branch("any"), "1"), &commit, Reaction::Known),
    ] {
        assert_eq!(decide(&hook, followed, is_at_1), reaction, "{hook:?} for {followed:?}");
    }
}
