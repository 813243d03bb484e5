//! What the engine has worked out about agents that are being rolled out, for their next pass.
//!
//! Each of these may be gone at any time, and decides nothing: with and without it the engine answers the same. An agent at rest
//! has none, because it holds copies of most that the agent runs as, and agents at rest are many.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ids::AgentKey;
use crate::rollout::Memo;

/// Of more rollouts at once, the others are evaluated without. One takes up to a megabyte, most of it two Deployments as they
/// are rendered and the two that live, which it keeps unpacked; a fleet that is rolled out in one push must not take that for
/// each of its agents.
const MOST: usize = 128;

/// The memos that there are.
#[derive(Default)]
pub(super) struct Memos(Mutex<BTreeMap<AgentKey, Memo>>);

impl Memos {
    /// What there is about an agent; it is put back after its pass.
    pub(super) fn take(&self, agent: &AgentKey) -> Memo {
        self.all().remove(agent).unwrap_or_default()
    }

    /// Keeps what there is about an agent, if there is room.
    pub(super) fn put(&self, agent: &AgentKey, memo: Memo) {
        let mut all = self.all();
        if all.len() < MOST {
            all.insert(agent.clone(), memo);
        }
    }

    /// The agent is gone.
    pub(super) fn forget(&self, agent: &AgentKey) {
        self.all().remove(agent);
    }

    /// Another Serin leads.
    pub(super) fn forget_all(&self) {
        self.all().clear();
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<AgentKey, Memo>> {
        // Whoever panicked with it has left it whole: each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_memos_than_there_is_room_for() {
        let memos = Memos::default();
        for i in 0..MOST + 10 {
            memos.put(&AgentKey::new("n", format!("a{i}")), Memo::default());
        }
        assert_eq!(memos.count(), MOST);
        let _taken = memos.take(&AgentKey::new("n", "a0"));
        memos.forget(&AgentKey::new("n", "a1"));
        assert_eq!(memos.count(), MOST - 2);
        memos.forget_all();
        assert_eq!(memos.count(), 0);
    }
}
