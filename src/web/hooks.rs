//! `POST /hooks/<source>`: a git host says that something was pushed.
//!
//! Whoever does not know the secret learns nothing and costs next to nothing: a source that is not there, one without a
//! webhook and a wrong signature are answered alike, after the same work; of a delivery that nothing could prove, not
//! even the body is read; bodies are few at a time, short, and must come soon.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::git::Revision;
use crate::ids::{CommitSha, SourceName};
use crate::settings::WebhookSecret;
use crate::telemetry::{HookResult, Metrics, event};
use crate::web::hook::{HookSecret, NotAuthentic, Opening, Reaction, decide, open, read_hook};
use crate::web::secret::SecretReader;

/// The longest body: a push of a thousand commits is a tenth of it. What is longer waits for the next poll.
const MOST_BYTES: usize = 1 << 20;

/// How many bodies are read at a time: with [`MOST_BYTES`], the memory that strangers can make Serin use.
const BODIES: usize = 16;

/// How long a body may take, the wait for its turn included. Git hosts give up after ten seconds.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Who is told of deliveries.
pub trait HookTarget: Send + Sync {
    /// Whether a source is at this commit already, so that there is nothing to fetch.
    fn is_current(&self, source: &SourceName, commit: &CommitSha) -> bool;

    /// Wants a source to be fetched now. Many of these at once are one fetch.
    fn fetch(&self, source: &SourceName);
}

/// A source that has a webhook.
pub struct HookedSource {
    /// Its name: the end of the path.
    pub name: SourceName,
    /// What it follows.
    pub followed: Revision,
    /// Where its secret is.
    pub secret: WebhookSecret,
}

/// All webhooks of the process.
pub struct Hooks {
    sources: BTreeMap<SourceName, Hooked>,
    target: Arc<dyn HookTarget>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    bodies: Semaphore,
    decoy: HookSecret,
}

struct Hooked {
    followed: Revision,
    secret: SecretReader,
    /// Whether a refusal was said already since the last delivery that was not refused.
    is_refusing: AtomicBool,
}

impl Hooks {
    /// The webhooks of these sources. Looks for each secret, so that one that is missing is said at the start.
    pub fn new(
        sources: Vec<HookedSource>,
        target: Arc<dyn HookTarget>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Arc<Self> {
        let hooked = |source: HookedSource| {
            let HookedSource { name, followed, secret } = source;
            (name, Hooked { followed, secret: SecretReader::new(secret), is_refusing: AtomicBool::new(false) })
        };
        let hooks = Self {
            sources: sources.into_iter().map(hooked).collect(),
            target,
            clock,
            metrics,
            bodies: Semaphore::new(BODIES),
            decoy: HookSecret::new(b"no delivery is ever accepted with it").expect("it is not empty"),
        };
        for (name, source) in &hooks.sources {
            hooks.secret(name, source);
        }
        Arc::new(hooks)
    }

    fn secret(&self, name: &SourceName, source: &Hooked) -> Option<HookSecret> {
        let found = source.secret.read(self.clock.now());
        if let (Err(why), true) = (&found.secret, found.is_lost) {
            event::HookSecretMissing { source: name, why }.emit(&self.metrics);
        }
        found.secret.ok()
    }

    /// Checks a delivery for the source `name`, and does what it asks for.
    async fn receive(&self, name: &str, request: Request) -> HookResult {
        let found = self.sources.get_key_value(&SourceName::new(name));
        let result = self.check(found, request).await.unwrap_or_else(|result| result);
        let is_news = found.is_some_and(|(_, source)| match result {
            HookResult::Refused => !source.is_refusing.swap(true, Ordering::Relaxed),
            HookResult::Accepted | HookResult::Known | HookResult::NotFollowed | HookResult::Ping => {
                source.is_refusing.store(false, Ordering::Relaxed);
                false
            }
            // Strangers can bring these about.
            HookResult::TooLarge | HookResult::TooSlow | HookResult::Busy => false,
        });
        event::HookReceived { source: found.map(|(name, _)| name), result, is_news }.emit(&self.metrics);
        result
    }

    async fn check(&self, found: Option<(&SourceName, &Hooked)>, request: Request) -> Result<HookResult, HookResult> {
        let known = found.and_then(|(name, source)| Some((name, source, self.secret(name, source)?)));
        // Without a source or a secret the same is done with a secret that nothing is accepted for.
        let secret = known.as_ref().map_or(&self.decoy, |(_, _, secret)| secret);
        let (head, body) = request.into_parts();
        let headers = listed(&head.headers);
        if open(&headers, secret) == Opening::Refused {
            return Err(HookResult::Refused);
        }
        let body = self.read_body(body).await?;
        let hook = read_hook(&headers, &body, secret).map_err(|NotAuthentic| HookResult::Refused)?;
        let Some((name, source, _)) = known else { return Err(HookResult::Refused) };
        let reaction = decide(&hook, &source.followed, |commit| self.target.is_current(name, commit));
        Ok(match reaction {
            Reaction::Pong => HookResult::Ping,
            Reaction::NotFollowed => HookResult::NotFollowed,
            Reaction::Known => HookResult::Known,
            Reaction::Fetch => {
                self.target.fetch(name);
                HookResult::Accepted
            }
        })
    }

    async fn read_body(&self, body: Body) -> Result<axum::body::Bytes, HookResult> {
        let longest = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
        if HttpBody::size_hint(&body).lower() > longest {
            return Err(HookResult::TooLarge);
        }
        let deadline = tokio::time::Instant::now() + BODY_TIMEOUT;
        let turn = tokio::time::timeout_at(deadline, self.bodies.acquire()).await;
        // The semaphore is never closed.
        let Ok(Ok(_turn)) = turn else { return Err(HookResult::Busy) };
        match tokio::time::timeout_at(deadline, Limited::new(body, MOST_BYTES).collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(HookResult::TooLarge),
            // Whoever hangs up in the middle does not read the answer either.
            Ok(Err(_)) | Err(_) => Err(HookResult::TooSlow),
        }
    }
}

/// Answers `POST /hooks/<source>`.
pub(crate) async fn answer_hook(
    State(hooks): State<Arc<Hooks>>,
    Path(source): Path<String>,
    request: Request,
) -> Response {
    let (status, text) = match hooks.receive(&source, request).await {
        HookResult::Accepted => (StatusCode::ACCEPTED, "accepted\n"),
        HookResult::Known => (StatusCode::ACCEPTED, "known\n"),
        HookResult::NotFollowed => (StatusCode::ACCEPTED, "not followed\n"),
        HookResult::Ping => (StatusCode::OK, "pong\n"),
        HookResult::Refused => {
            let challenge = [(header::WWW_AUTHENTICATE, "Signature")];
            return (StatusCode::UNAUTHORIZED, challenge, "unauthorized\n").into_response();
        }
        HookResult::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too large\n"),
        HookResult::TooSlow => (StatusCode::REQUEST_TIMEOUT, "too slow\n"),
        HookResult::Busy => {
            let again = [(header::RETRY_AFTER, "1")];
            return (StatusCode::SERVICE_UNAVAILABLE, again, "busy\n").into_response();
        }
    };
    (status, text).into_response()
}

fn listed(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}
