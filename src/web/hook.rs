//! One delivery of a webhook: whether it is authentic, and what it says. A function of its bytes.
//!
//! The signature is checked over the bytes as they came, before any of them is parsed. There is no check of the time of
//! signing: a hook carries nothing but "look now", so one that is played again costs one look at the remote at the most,
//! and a clock that is wrong must not make Serin deaf.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;

use crate::git::Revision;
use crate::ids::CommitSha;

/// Length of an HMAC-SHA256 in bytes.
const SIGNATURE_BYTES: usize = 32;

/// How many signatures of one header are looked at: Standard Webhooks sends several while keys are rotated.
const MOST_SIGNATURES: usize = 8;

/// Headers with the HMAC of the body in hex, some with `sha256=` before it.
const HEX_HEADERS: [&str; 5] =
    ["x-hub-signature-256", "x-gitea-signature", "x-forgejo-signature", "x-signature-256", "x-signature"];

/// Headers that say what happened.
const EVENT_HEADERS: [&str; 4] = ["x-github-event", "x-gitea-event", "x-forgejo-event", "x-gitlab-event"];

/// What a git host and Serin both know. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSecret {
    text: Vec<u8>,
    /// The key of Standard Webhooks: what the base64 behind `whsec_` says.
    standard_key: Option<Vec<u8>>,
}

/// Why a text is no secret: anybody could sign with it, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSecret {
    /// There is nothing but white space.
    #[error("is empty")]
    Empty,
    /// A secret of Standard Webhooks without a key: what is signed with the empty key, anybody can sign.
    #[error("has nothing behind `whsec_`")]
    NoKey,
    /// It says that it is of Standard Webhooks, and its key cannot be read.
    #[error("has no base64 behind `whsec_`")]
    NotBase64,
}

impl HookSecret {
    /// From the contents of a file or of a variable: line ends behind it are not a part of it.
    ///
    /// # Errors
    /// If anybody could sign with it, or its key cannot be read.
    pub fn new(contents: &[u8]) -> Result<Self, NoSecret> {
        let end = contents.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).ok_or(NoSecret::Empty)?;
        let text = &contents[..=end];
        if text.trim_ascii().is_empty() {
            return Err(NoSecret::Empty);
        }
        let standard_key = match text.strip_prefix(b"whsec_") {
            None => None,
            Some(key) if key.trim_ascii().is_empty() => return Err(NoSecret::NoKey),
            Some(key) => Some(BASE64.decode(key).map_err(|_| NoSecret::NotBase64)?),
        };
        Ok(Self { text: text.to_vec(), standard_key })
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        mac(&self.text, parts)
    }
}

impl fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSecret(***)")
    }
}

/// A delivery that whoever knows the secret has not sent, or not like this. It does not say why: the answer must not
/// help to guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the delivery is not signed with the secret of this source")]
pub struct NotAuthentic;

/// What an authentic delivery says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Somebody has set it up and wants to know whether it arrives.
    Ping,
    /// A branch or a tag was moved.
    Push {
        /// Which one.
        moved: Moved,
        /// Where it is now.
        after: Option<CommitSha>,
    },
    /// Anything else.
    Other,
}

/// What a push has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The branch of this name.
    Branch(String),
    /// The tag of this name.
    Tag(String),
}

/// What an authentic delivery is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing happens: it was a ping.
    Pong,
    /// The source is fetched.
    Fetch,
    /// Nothing happens: it is about something that the source does not follow.
    NotFollowed,
    /// Nothing happens: the source is at that commit already.
    Known,
}

/// What the headers alone tell about a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// They prove it: what they carry is the secret itself.
    Proven,
    /// There are signatures, and the body decides about them.
    Signed(Signatures),
    /// There is nothing that could prove anything: the body need not be read.
    Refused,
}

/// The signatures of a delivery, not compared with anything yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    plain: Vec<[u8; SIGNATURE_BYTES]>,
    standard: Vec<[u8; SIGNATURE_BYTES]>,
    /// What Standard Webhooks signs before the body.
    prefix: Vec<u8>,
}

/// Checks a delivery and reads it: headers (names in lower case), body, and the secret of the source that it is for.
///
/// # Errors
/// If it is not authentic.
pub fn read_hook(headers: &[(&str, &[u8])], body: &[u8], secret: &HookSecret) -> Result<Hook, NotAuthentic> {
    match open(headers, secret) {
        Opening::Proven => Ok(read_event(headers, body)),
        Opening::Signed(signatures) if signatures.hold(body, secret) => Ok(read_event(headers, body)),
        Opening::Signed(_) | Opening::Refused => Err(NotAuthentic),
    }
}

/// Looks at the headers (names in lower case), so that nothing is read of a delivery that cannot be authentic.
pub fn open(headers: &[(&str, &[u8])], secret: &HookSecret) -> Opening {
    if let Some(token) = header(headers, "x-gitlab-token")
        && is_same(token, &secret.text)
    {
        return Opening::Proven;
    }
    let mut signatures = Signatures {
        plain: HEX_HEADERS.iter().filter_map(|name| parse_hex(header(headers, name)?)).collect(),
        ..Signatures::default()
    };
    if let (Some(id), Some(time), Some(listed)) =
        (header(headers, "webhook-id"), header(headers, "webhook-timestamp"), header(headers, "webhook-signature"))
    {
        signatures.standard =
            listed.split(|byte| *byte == b' ').take(MOST_SIGNATURES).filter_map(parse_standard).collect();
        signatures.prefix = [id, b".", time, b"."].concat();
    }
    if signatures.plain.is_empty() && signatures.standard.is_empty() {
        return Opening::Refused;
    }
    Opening::Signed(signatures)
}

/// What a delivery is to bring about for a source that follows `followed`; `is_current` says whether the source is at a
/// commit already.
pub fn decide(hook: &Hook, followed: &Revision, is_current: impl FnOnce(&CommitSha) -> bool) -> Reaction {
    let (moved, after) = match hook {
        Hook::Ping => return Reaction::Pong,
        Hook::Other => return Reaction::Fetch,
        Hook::Push { moved, after } => (moved, after),
    };
    let is_followed = match (followed, moved) {
        (Revision::Branch(branch), Moved::Branch(moved)) => branch.as_str() == moved,
        (Revision::Tag(tag), Moved::Tag(moved)) => tag == moved,
        (Revision::Branch(_), Moved::Tag(_)) | (Revision::Tag(_), Moved::Branch(_)) => false,
        // Whatever is pushed may bring the commit.
        (Revision::Commit(_), _) => true,
    };
    match after {
        _ if !is_followed => Reaction::NotFollowed,
        // An annotated tag is told by the id of the tag object, which is no commit that a source is at.
        Some(after) if is_current(after) => Reaction::Known,
        _ => Reaction::Fetch,
    }
}

impl Signatures {
    /// Whether one of them is that of `body` by `secret`.
    pub fn hold(&self, body: &[u8], secret: &HookSecret) -> bool {
        let is_plain = !self.plain.is_empty() && {
            let mac = secret.mac(&[body]);
            self.plain.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
        };
        is_plain
            || !self.standard.is_empty() && {
                let signed: &[&[u8]] = &[&self.prefix, body];
                let mac = secret.standard_key.as_ref().map_or_else(|| secret.mac(signed), |key| mac(key, signed));
                self.standard.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
            }
    }
}

/// What GitHub, Gitea, Forgejo and GitLab say of a push; others may say it too.
#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "ref")]
    reference: String,
    after: Option<String>,
}

/// What an authentic delivery says. What cannot be understood is still a reason to look.
fn read_event(headers: &[(&str, &[u8])], body: &[u8]) -> Hook {
    let event = EVENT_HEADERS.iter().find_map(|name| header(headers, name)).unwrap_or_default();
    if event.eq_ignore_ascii_case(b"ping") {
        return Hook::Ping;
    }
    let Ok(Payload { reference, after }) = serde_json::from_slice::<Payload>(body) else { return Hook::Other };
    let branch = reference.strip_prefix("refs/heads/").map(|name| Moved::Branch(name.to_owned()));
    let tag = || reference.strip_prefix("refs/tags/").map(|name| Moved::Tag(name.to_owned()));
    let Some(moved) = branch.or_else(tag) else { return Hook::Other };
    let is_commit = |text: &String| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    Hook::Push { moved, after: after.filter(is_commit).map(|text| CommitSha::new(text.to_ascii_lowercase())) }
}

fn header<'a>(headers: &[(&str, &'a [u8])], name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("an HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// Whether two texts are the same, in a time that tells nothing about how much of them is.
fn is_same(given: &[u8], secret: &[u8]) -> bool {
    let key = b"the comparison of tokens";
    mac(key, &[given]).verify(&mac(key, &[secret]).finalize().into_bytes()).is_ok()
}

fn parse_hex(text: &[u8]) -> Option<[u8; SIGNATURE_BYTES]> {
    let text = text.strip_prefix(b"sha256=").unwrap_or(text);
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = text
        .chunks(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?))
        .take(SIGNATURE_BYTES + 1)
        .collect();
    bytes?.try_into().ok()
}

fn parse_standard(text: &[u8]) -> Option<[u8; SIGNATURE_BYTES]> {
    let text = text.strip_prefix(b"v1,").filter(|text| text.len() < 2 * SIGNATURE_BYTES)?;
    BASE64.decode(text).ok()?.try_into().ok()
}
