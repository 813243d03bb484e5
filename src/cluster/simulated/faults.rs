//! What can go wrong between Serin and an API server, decided by whoever searches for faults.
//!
//! Nothing here is random by itself: the searcher's callbacks decide, so that one seed is one history.

use crate::cluster::{ClusterError, FieldManager, Part};
use crate::object::ObjectKey;

/// One call of the cluster, before it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// What is asked.
    pub verb: Verb,
    /// About what; for a list, a key with an empty name.
    pub key: &'a ObjectKey,
}

/// What is asked of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read all objects of a kind.
    List,
    /// Ask whether a kind is known.
    Serves,
    /// Server-side apply.
    Apply(FieldManager, PartOf),
    /// Server-side apply that is not stored.
    Preview,
    /// Merge patch.
    Patch,
    /// Change by somebody who is not Serin: a person, or a controller.
    Update,
    /// Delete.
    Delete,
    /// Record an event.
    Record,
}

/// [`Part`], in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartOf {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
}

impl From<Part> for PartOf {
    fn from(part: Part) -> Self {
        match part {
            Part::Main => Self::Main,
            Part::Status => Self::Status,
        }
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out.
    Proceed,
    /// It is not carried out, and fails.
    FailBefore(ClusterError),
    /// It is carried out, and the caller sees a failure: the answer was lost.
    FailAfter(ClusterError),
    /// The process that called ends, before or after the call was carried out. Every later call fails until
    /// [`super::SimulatedCluster::restart`].
    Crash(Moment),
}

/// When in a call a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The call is not carried out.
    Before,
    /// The call is carried out.
    After,
}

/// Whether a wake-up arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It does.
    Arrives,
    /// It does not, until [`super::SimulatedCluster::resync`].
    Lost,
}

/// Whether reads that lag behind show what the reader itself wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnWrites {
    /// They do: what [`crate::cluster::Cluster`] promises.
    Visible,
    /// They may not: worse than promised.
    Lagging,
}

/// Decides the fate of each call.
pub type FateOf = Box<dyn FnMut(&Call<'_>) -> Fate + Send>;

/// Decides the fate of each wake-up.
pub type DeliveryOf = Box<dyn FnMut(&ObjectKey) -> Delivery + Send>;

/// splitmix64: a sequence of numbers that is the same for the same seed, for ever.
#[derive(Clone, Debug)]
pub struct Sequence(u64);

impl Sequence {
    /// The sequence of a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_number().checked_rem(bound).unwrap_or(0)
    }

    /// True `percent` times of a hundred.
    pub fn is_in_percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
