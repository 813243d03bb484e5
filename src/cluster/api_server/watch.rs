//! The task behind a shelf: list once, then follow the changes from there, for ever.
//!
//! Our own loop and not kube's `watcher`, because the store must know the version of the list: it tells an object
//! that is gone from one that was written a moment after the list was taken.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::request::Request;
use serde_json::Value;
use tokio::time::Instant;

use super::discovery::{Discovery, Resource};
use super::error;
use super::request::{Http, Operation, Target};
use super::shelf::Shelf;
use super::{PAGE, object_in};
use crate::chain::Chain;
use crate::cluster::ClusterError;
use crate::object::Object;

/// The first pause after a failure, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: how late a server that came back is noticed. Eleven watches that knock every five seconds
/// are nothing to a server that starts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long the server keeps one watch open, in seconds. It must be below the 295 s that kube allows; half a minute
/// of spread keeps the watches from all coming back in the same moment.
const WATCH_SECONDS: u32 = 240;
const WATCH_SPREAD_SECONDS: u64 = 30;

/// A server that sends bookmarks sends one about every minute. After two missed ones the connection is taken for
/// dead: a firewall may drop it without a word, and a rollout would stand still until the watch ends by itself.
const SILENCE_AFTER_BOOKMARK: Duration = Duration::from_secs(150);

/// Why following ended.
enum End {
    /// The version that was to be followed is too old: list again.
    Expired,
    /// It did not work; the version it had come to is kept.
    Failed(ClusterError),
}

/// Keeps `shelf` up to date, for ever.
pub(super) async fn run(shelf: Arc<Shelf>, http: Http, discovery: Arc<Discovery>, recheck: Duration) {
    let mut pause = Pause::default();
    loop {
        let error = match discovery.resource(shelf.kind()).await {
            Ok(Some(resource)) => match list_and_follow(&shelf, &http, &resource, &mut pause, recheck).await {
                error @ ClusterError::NotServed { .. } => {
                    // Discovery may go on telling of it for a while: not to be asked without end.
                    discovery.forget(shelf.kind()).await;
                    error
                }
                error => error,
            },
            Ok(None) => {
                shelf.not_served();
                tokio::time::sleep(recheck).await;
                continue;
            }
            Err(error) => error,
        };
        pause.after(&shelf, &error, recheck).await;
    }
}

/// Lists all pages of a collection, and hands each to `take`. Gives back the version at which the list was taken.
pub(super) async fn list(
    http: &Http,
    resource: &Resource,
    namespace: Option<&str>,
    params: ListParams,
    mut take: impl FnMut(Vec<Object>),
) -> Result<String, ClusterError> {
    let target = Target::collection(&resource.kind, namespace);
    let mut params = params;
    loop {
        let mut page = http.send(&target, resource, &Operation::List(params.clone())).await?.body;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            let objects = items.into_iter().map(|item| object_in(&resource.kind, item));
            take(objects.collect::<Result<Vec<_>, _>>()?);
        }
        let text = |field: &str| page["metadata"][field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        match (text("continue"), text("resourceVersion")) {
            (Some(more), _) => params.continue_token = Some(more),
            (None, Some(version)) => return Ok(version),
            (None, None) => return Err(ClusterError::Unavailable { why: "its list has no resourceVersion".into() }),
        }
    }
}

async fn list_and_follow(
    shelf: &Shelf,
    http: &Http,
    resource: &Resource,
    pause: &mut Pause,
    recheck: Duration,
) -> ClusterError {
    loop {
        let params = ListParams { label_selector: shelf.selector(), limit: Some(PAGE), ..ListParams::default() };
        let mut listed = Vec::new();
        let take = |page| listed.extend(shelf.pack(page));
        let mut version = match list(http, resource, shelf.namespace(), params, take).await {
            Ok(version) => version,
            Err(error) => return error,
        };
        shelf.listed(listed, version.parse().ok());
        pause.ended(shelf);
        loop {
            let since = Instant::now();
            match follow(shelf, http, resource, &mut version, pause).await {
                // A server that closes each watch at once must not be asked without end.
                Ok(()) if since.elapsed() >= LONGEST_PAUSE => pause.ended(shelf),
                Ok(()) => {
                    let why = "it closed the watch at once".into();
                    pause.after(shelf, &ClusterError::Unavailable { why }, recheck).await;
                }
                Err(End::Expired) => break,
                Err(End::Failed(error @ ClusterError::NotServed { .. })) => return error,
                Err(End::Failed(error)) => pause.after(shelf, &error, recheck).await,
            }
        }
    }
}

/// Follows one watch until it ends, moving `version` on.
async fn follow(
    shelf: &Shelf,
    http: &Http,
    resource: &Resource,
    version: &mut String,
    pause: &mut Pause,
) -> Result<(), End> {
    let namespace = shelf.namespace();
    let target = Target::collection(&resource.kind, namespace);
    let seconds = WATCH_SECONDS + spread(shelf);
    let params = WatchParams {
        label_selector: shelf.selector(),
        timeout: Some(seconds),
        bookmarks: true,
        ..WatchParams::default()
    };
    let request = Request::new(resource.path(namespace))
        .watch(&params, version)
        .map_err(|error| End::Failed(ClusterError::Invalid { key: target.key(), why: Chain(&error).to_string() }))?;
    let opening = http.client().request_events::<Value>(request);
    let opened = match tokio::time::timeout(http.timeout(), opening).await {
        Ok(opened) => opened.map_err(|error| failure(&target, &error)),
        Err(_) => Err(End::Failed(ClusterError::Unavailable { why: format!("no watch within {:?}", http.timeout()) })),
    };
    http.observe(
        "watch",
        &resource.kind,
        match &opened {
            Err(End::Failed(error)) => Some(error),
            Err(End::Expired) | Ok(_) => None,
        },
    );
    let mut events = pin!(opened?);
    shelf.following();
    let mut silence = Duration::from_secs(u64::from(seconds) + 5);
    loop {
        let Ok(event) = tokio::time::timeout(silence, events.try_next()).await else {
            let why = format!("the watch was silent for {silence:?}");
            return Err(End::Failed(ClusterError::Unavailable { why }));
        };
        let event = event.map_err(|error| failure(&target, &error))?;
        if matches!(
            event,
            Some(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) | WatchEvent::Bookmark(_))
        ) {
            pause.ended(shelf);
        }
        let object = |body| object_in(&resource.kind, body).map_err(End::Failed);
        match event {
            None => return Ok(()),
            Some(WatchEvent::Added(body) | WatchEvent::Modified(body)) => {
                let object = object(body)?;
                keep_version(version, &object);
                shelf.saw(object);
            }
            Some(WatchEvent::Deleted(body)) => {
                let object = object(body)?;
                keep_version(version, &object);
                shelf.saw_deletion(&object);
            }
            Some(WatchEvent::Bookmark(bookmark)) => {
                *version = bookmark.metadata.resource_version;
                shelf.advance(version.parse().ok());
                silence = silence.min(SILENCE_AFTER_BOOKMARK);
            }
            Some(WatchEvent::Error(status)) if status.code == 410 => return Err(End::Expired),
            Some(WatchEvent::Error(status)) => {
                return Err(End::Failed(error::from_status("watch", &target, &status, None)));
            }
        }
    }
}

fn keep_version(version: &mut String, object: &Object) {
    if let Some(next) = object.resource_version() {
        next.clone_into(version);
    }
}

fn failure(target: &Target<'_>, error: &kube::Error) -> End {
    match error {
        kube::Error::Api(status) if status.code == 410 => End::Expired,
        // A path that no API has is answered in plain text.
        kube::Error::Api(status) if status.code == 404 => {
            End::Failed(ClusterError::NotServed { kind: target.kind.clone() })
        }
        kube::Error::Api(status) => End::Failed(error::from_status("watch", target, status, None)),
        error => End::Failed(ClusterError::Unavailable { why: Chain(error).to_string() }),
    }
}

fn spread(shelf: &Shelf) -> u32 {
    let mut hasher = DefaultHasher::new();
    (shelf.kind(), shelf.namespace()).hash(&mut hasher);
    u32::try_from(hasher.finish() % WATCH_SPREAD_SECONDS).unwrap_or(0)
}

/// The pause between two tries, and what the log says about it: a failure once, not each time, and its end.
#[derive(Default)]
struct Pause {
    next: Option<Duration>,
    reported: Option<ClusterError>,
}

impl Pause {
    async fn after(&mut self, shelf: &Shelf, error: &ClusterError, recheck: Duration) {
        shelf.failing(error);
        let length = self.next.unwrap_or(FIRST_PAUSE);
        // One lost connection is a matter of every day.
        if self.next.is_some() && self.reported.as_ref() != Some(error) {
            let namespace = shelf.namespace().unwrap_or("*");
            tracing::warn!(kind = %shelf.kind(), namespace, %error, "a watch fails and is tried again");
            self.reported = Some(error.clone());
        }
        self.next = Some((length * 2).min(LONGEST_PAUSE));
        let wanted = match error {
            ClusterError::TooManyRequests { retry_after: Some(wanted) } => length.max(*wanted),
            // Somebody has to change a role first.
            ClusterError::Forbidden { .. } => length.max(recheck),
            _ => length,
        };
        tokio::time::sleep(wanted).await;
    }

    fn ended(&mut self, shelf: &Shelf) {
        self.next = None;
        if self.reported.take().is_some() {
            let namespace = shelf.namespace().unwrap_or("*");
            tracing::info!(kind = %shelf.kind(), namespace, "the watch works again");
        }
    }
}
