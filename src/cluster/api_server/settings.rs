//! What an [`super::ApiServer`] watches, and how it asks.

use std::sync::Arc;
use std::time::Duration;

use super::request::ObserveRequests;
use crate::object::{Kind, Object};

/// How long one request may take. The slowest that Serin makes, a page of 500 objects, takes under a second on a
/// healthy server; admission webhooks may take 10 s by Kubernetes' default, and one that does is broken.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a kind that was not served is looked for again: people who install a CRD wait half a minute at most,
/// and a cluster that never gets it sees two small requests per minute.
const RECHECK: Duration = Duration::from_secs(30);

/// What to watch and how to ask.
#[derive(Clone)]
pub struct Settings {
    /// The kinds that [`crate::cluster::Cluster::get`] and `list` answer from a watch; one watch each.
    pub watches: Vec<Watched>,
    /// Where they are watched.
    pub namespaces: Namespaces,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How often a kind whose CRD is missing is looked for again.
    pub recheck: Duration,
    /// Which of several Serins this is, for events: the pod's name.
    pub instance: String,
    /// Told of each request after its answer.
    pub observer: Option<Arc<dyn ObserveRequests>>,
}

impl Settings {
    /// Watches `watches` in all namespaces, with the default times.
    pub fn watching(watches: Vec<Watched>) -> Self {
        Self {
            watches,
            namespaces: Namespaces::All,
            request_timeout: REQUEST_TIMEOUT,
            recheck: RECHECK,
            instance: "serin".into(),
            observer: None,
        }
    }
}

/// Where to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Everywhere, with one watch per kind.
    All,
    /// In these only, with one watch per kind and namespace: for credentials that may not look elsewhere.
    These(Vec<String>),
}

/// A watched kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The kind.
    pub kind: Kind,
    /// Only objects that fit all of these are seen; others of the kind are as if they were not there.
    pub labels: Vec<LabelRule>,
    /// Whether Serin goes without it where the credentials do not allow it.
    pub need: Need,
    /// A field (JSON pointer) by whose text objects are found without a look at all others.
    pub index: Option<&'static str>,
}

/// Whether a watch has to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing is decided before its first list.
    Required,
    /// One that is forbidden holds nothing up; reads say that they are forbidden.
    Optional,
}

impl Watched {
    /// All objects of `kind`.
    pub fn all(kind: Kind) -> Self {
        Self { kind, labels: Vec::new(), need: Need::Required, index: None }
    }

    /// The same, but nothing waits for it where it is forbidden.
    pub fn optional(self) -> Self {
        Self { need: Need::Optional, ..self }
    }

    /// The same, found by the text at `field`, too.
    pub fn indexed_by(self, field: &'static str) -> Self {
        Self { index: Some(field), ..self }
    }

    /// Only the objects of `kind` that fit `rule`.
    pub fn labelled(kind: Kind, rule: LabelRule) -> Self {
        Self { labels: vec![rule], ..Self::all(kind) }
    }

    /// The label selector of requests.
    pub(super) fn selector(&self) -> Option<String> {
        let rule = |rule: &LabelRule| match rule {
            LabelRule::Has(name) => name.clone(),
            LabelRule::Is(name, value) => format!("{name}={value}"),
        };
        (!self.labels.is_empty()).then(|| self.labels.iter().map(rule).collect::<Vec<_>>().join(","))
    }

    /// The label selector of all objects of the kind that the watch does not show; `None`: there are none, or no selector
    /// says so.
    pub(super) fn selector_of_others(&self) -> Option<String> {
        match self.labels.as_slice() {
            [LabelRule::Has(name)] => Some(format!("!{name}")),
            [LabelRule::Is(name, value)] => Some(format!("{name}!={value}")),
            _ => None,
        }
    }

    /// Whether the server would send `object` to this watch.
    pub(super) fn selects(&self, object: &Object) -> bool {
        self.labels.iter().all(|rule| match rule {
            LabelRule::Has(name) => object.label(name).is_some(),
            LabelRule::Is(name, value) => object.label(name) == Some(value),
        })
    }
}

/// A demand on the labels of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelRule {
    /// The label is there.
    Has(String),
    /// The label has this value.
    Is(String, String),
}
