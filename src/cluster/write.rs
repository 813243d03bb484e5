//! What is written to a cluster, as plain data: decisions make these, and only the shell carries them out.

use serde_json::Value;

use crate::ids::Uid;
use crate::object::{Object, ObjectKey};

/// Who owns the fields of a server-side apply.
///
/// Invariant: each field that Serin writes belongs to exactly one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldManager {
    /// What git says: `spec` of the objects in the repository.
    Sync,
    /// What the rollout engine creates: workloads, routing, `status`, the record annotation.
    Rollout,
}

impl FieldManager {
    /// The name in `metadata.managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "serin-sync",
            Self::Rollout => "serin-rollout",
        }
    }
}

/// What must be true of the live object for a write to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is none. Somebody else's object of that name is [`super::ClusterError::Exists`], never taken over.
    Absent,
    /// There is one with this uid; another, or none, is [`super::ClusterError::Conflict`].
    Uid(Uid),
}

/// One server-side apply, forced (the fields in it become the manager's), of the object or of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    /// The fields that the manager wants, and no others.
    pub object: Object,
    /// Who wants them.
    pub manager: FieldManager,
    /// What must be true of the live object.
    pub expect: Expect,
    /// Which part of the object is written.
    pub part: Part,
}

/// The part of an object that a write touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status subresource.
    Status,
}

/// A JSON merge patch (RFC 7386): how the decisions about an AgentRuntime that somebody applied by hand are carried out,
/// and how fields of others are removed, which no apply does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePatch {
    /// The object to patch.
    pub key: ObjectKey,
    /// It must still be this object.
    pub uid: Uid,
    /// It must still be at this version: a person's edit is never overwritten.
    pub resource_version: String,
    /// The patch.
    pub patch: Value,
}

/// An event about an object, as `kubectl describe` shows it (`events.k8s.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// What it is about.
    pub about: ObjectKey,
    /// The uid of what it is about.
    pub uid: Uid,
    /// Normal or Warning.
    pub severity: Severity,
    /// Reason in upper camel case.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something expected happened.
    Normal,
    /// Something that a person should look at.
    Warning,
}
