//! What a Lease says, as data: the `spec` of `coordination.k8s.io/v1`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::Object;

/// Who holds a Lease, and since when by his own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// `holderIdentity`; empty: nobody.
    pub(crate) holder: String,
    /// `leaseDurationSeconds`: how long after its last change others take the holder for gone.
    pub(crate) duration: Duration,
    /// `acquireTime`: when the holder took it, by his clock. For people.
    pub(crate) acquired: Option<Timestamp>,
    /// `renewTime`: when he renewed it last, by his clock. Only whether it changed matters.
    pub(crate) renewed: Option<Timestamp>,
    /// `leaseTransitions`: how often it changed hands.
    pub(crate) transitions: u32,
}

impl Record {
    /// What a Lease says. What is missing or nonsense counts as free (no holder) or as over at once (no duration): nobody
    /// who renews a Lease leaves these out.
    pub(crate) fn read(lease: &Object) -> Self {
        let number = |pointer: &str| lease.integer(pointer).and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        let time = |pointer: &str| lease.text(pointer).and_then(|text| text.parse().ok());
        Self {
            holder: lease.text("/spec/holderIdentity").unwrap_or_default().to_owned(),
            duration: Duration::from_secs(u64::from(number("/spec/leaseDurationSeconds"))),
            acquired: time("/spec/acquireTime"),
            renewed: time("/spec/renewTime"),
            transitions: number("/spec/leaseTransitions"),
        }
    }

    /// The `spec` that says this. Times have microseconds, the type's precision.
    pub(crate) fn spec(&self) -> Value {
        let time = |time: &Option<Timestamp>| time.map(|time| format!("{time:.6}"));
        json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration.as_secs(),
            "acquireTime": time(&self.acquired),
            "renewTime": time(&self.renewed),
            "leaseTransitions": self.transitions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let time: Timestamp = "2026-03-01T10:00:00.123456Z".parse().unwrap();
        let record = Record {
            holder: "pod_1".into(),
            duration: Duration::from_secs(10),
            acquired: Some(time),
            renewed: Some("2026-03-01T10:00:02Z".parse().unwrap()),
            transitions: 3,
        };
        let spec = record.spec();
        assert_eq!(spec["acquireTime"], "2026-03-01T10:00:00.123456Z");
        assert_eq!(spec["renewTime"], "2026-03-01T10:00:02.000000Z");
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "serin"}, "spec": spec});
        assert_eq!(Record::read(&Object::from_value(lease).unwrap()), record);
    }

    #[test]
    fn a_lease_with_nothing_or_nonsense_in_it_is_free() {
        for spec in
            [json!(null), json!({}), json!({"leaseDurationSeconds": -1, "renewTime": "soon", "leaseTransitions": -7})]
        {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "serin"}, "spec": spec});
            assert_eq!(Record::read(&Object::from_value(lease).unwrap()), Record::default());
        }
    }
}
