//! Events of `events.k8s.io/v1`, with equal ones counted in one object and not repeated.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::request::{Http, Operation, Target};
use crate::clock::Clock;
use crate::cluster::{ClusterError, EventRecord, Part, Severity};
use crate::ids::Uid;
use crate::object::Kind;

const EVENT: Kind =
    Kind { group: Cow::Borrowed("events.k8s.io"), version: Cow::Borrowed("v1"), kind: Cow::Borrowed("Event") };

/// An event within this time of an equal one is counted. Kubernetes' own recorders end a series after six minutes.
const SERIES: SignedDuration = SignedDuration::from_mins(6);

/// How often series that have ended are forgotten.
const SWEEP: SignedDuration = SignedDuration::from_mins(1);

/// The longest note that the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// What was recorded lately.
pub(super) struct Events {
    instance: String,
    clock: Arc<dyn Clock>,
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    events: HashMap<Identity, Recorded>,
    /// When those whose series has ended were forgotten last.
    swept: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    about: Uid,
    severity: &'static str,
    reason: &'static str,
    message: String,
}

#[derive(Clone)]
struct Recorded {
    name: String,
    count: u64,
    last: Timestamp,
}

impl Events {
    pub(super) fn new(instance: String, clock: Arc<dyn Clock>) -> Self {
        Self { instance, clock, recent: Mutex::default() }
    }

    pub(super) async fn record(&self, http: &Http, event: &EventRecord) -> Result<(), ClusterError> {
        let identity = Identity {
            about: event.uid.clone(),
            severity: severity(event),
            reason: event.reason,
            message: event.message.clone(),
        };
        let now = self.clock.now();
        let namespace = if event.about.namespace.is_empty() { "default" } else { &event.about.namespace };
        if let Some(earlier) = self.count(&identity, now) {
            let target = Target { kind: &EVENT, namespace, name: &earlier.name };
            let patch = json!({"series": {"count": earlier.count, "lastObservedTime": micro_time(now)}});
            let merge = Operation::Merge { patch: &patch, part: Part::Main };
            match http.send_to(path(namespace), &target, &merge).await {
                // The server forgets events after an hour, or whenever it likes.
                Err(ClusterError::NotFound { .. }) => {}
                result => return result.map(|_| ()),
            }
        }
        let target = Target { kind: &EVENT, namespace, name: "" };
        let body = self.body(event, namespace, now);
        let answer = http.send_to(path(namespace), &target, &Operation::Create { body: &body }).await?;
        if let Some(name) = answer.body["metadata"]["name"].as_str() {
            let recorded = Recorded { name: name.to_owned(), count: 1, last: now };
            self.recent.lock().unwrap_or_else(PoisonError::into_inner).events.insert(identity, recorded);
        }
        Ok(())
    }

    /// Counts one more of a running series. Series that have ended are forgotten on the way, not each time: a thousand rollouts
    /// have tens of thousands of events.
    fn count(&self, identity: &Identity, now: Timestamp) -> Option<Recorded> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_running = |recorded: &Recorded| now.duration_since(recorded.last) < SERIES;
        if recent.swept.is_none_or(|swept| now.duration_since(swept).abs() > SWEEP) {
            recent.events.retain(|_, recorded| is_running(recorded));
            recent.swept = Some(now);
        }
        let recorded = recent.events.get_mut(identity).filter(|recorded| is_running(recorded))?;
        recorded.count += 1;
        recorded.last = now;
        Some(recorded.clone())
    }

    fn body(&self, event: &EventRecord, namespace: &str, now: Timestamp) -> Value {
        json!({
            "apiVersion": EVENT.api_version(),
            "kind": EVENT.kind,
            "metadata": {"generateName": format!("{}-", event.about.name), "namespace": namespace},
            "eventTime": micro_time(now),
            "reportingController": "serin.dev/serin",
            "reportingInstance": self.instance,
            "type": severity(event),
            "reason": event.reason,
            // What was done and why are one word in Serin's events.
            "action": event.reason,
            "note": shortened(&event.message),
            "regarding": {
                "apiVersion": event.about.kind.api_version(),
                "kind": event.about.kind.kind,
                "namespace": event.about.namespace,
                "name": event.about.name,
                "uid": event.uid.as_str(),
            },
        })
    }
}

fn severity(event: &EventRecord) -> &'static str {
    match event.severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    }
}

fn path(namespace: &str) -> String {
    format!("/apis/{}/namespaces/{namespace}/events", EVENT.api_version())
}

fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn shortened(message: &str) -> &str {
    let mut end = message.len().min(LONGEST_NOTE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        assert_eq!(shortened("short"), "short");
        let long = "é".repeat(600);
        assert_eq!(shortened(&long).len(), 1024);
        assert_eq!(shortened(&format!("x{long}")).len(), 1023);
    }

    #[test]
    fn times_have_the_six_digits_that_the_api_wants() {
        let time: Timestamp = "2026-01-02T03:04:05.6Z".parse().expect("a time");
        assert_eq!(micro_time(time), "2026-01-02T03:04:05.600000Z");
    }
}
