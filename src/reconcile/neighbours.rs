//! Agents that other agents call: whose pods learn where they are, and who has to be looked at when that changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::ids::AgentKey;
use crate::object::{Object, ObjectKey};
use crate::reconcile::{Core, PassError};
use crate::workload;

/// Who calls whom. Each agent is looked at after a start, so it fills itself.
#[derive(Default)]
pub(super) struct Callers {
    /// The callers of an agent.
    of: BTreeMap<AgentKey, BTreeSet<AgentKey>>,
    /// Whom an agent calls.
    calls: BTreeMap<AgentKey, BTreeSet<AgentKey>>,
}

impl Callers {
    fn remove(&mut self, caller: &AgentKey, called: &AgentKey) {
        if let Some(known) = self.of.get_mut(called) {
            known.remove(caller);
            if known.is_empty() {
                self.of.remove(called);
            }
        }
    }
}

impl Core {
    /// The agents that `agent` calls, of those that are there.
    pub(super) async fn peers(&self, agent: &AgentKey, live: &Object) -> Result<Vec<Arc<Object>>, PassError> {
        let named: BTreeSet<AgentKey> = workload::peers(live).collect();
        // Noted before they are read: a change in between wakes this agent again.
        self.note_callers(agent, &named);
        let mut found = Vec::new();
        for peer in &named {
            found.extend(self.get(&ObjectKey::agent(peer)).await?);
        }
        Ok(found)
    }

    /// The agents that call `agent`.
    pub(super) fn callers_of(&self, agent: &AgentKey) -> Vec<AgentKey> {
        self.callers().of.get(agent).into_iter().flatten().cloned().collect()
    }

    /// `agent` is gone: it calls nobody.
    pub(super) fn forget_caller(&self, agent: &AgentKey) {
        self.note_callers(agent, &BTreeSet::new());
    }

    fn note_callers(&self, caller: &AgentKey, called: &BTreeSet<AgentKey>) {
        let mut callers = self.callers();
        let before = callers.calls.insert(caller.clone(), called.clone()).unwrap_or_default();
        for gone in before.difference(called) {
            callers.remove(caller, gone);
        }
        for agent in called {
            callers.of.entry(agent.clone()).or_default().insert(caller.clone());
        }
        if called.is_empty() {
            callers.calls.remove(caller);
        }
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        // A pass that panicked holds it no longer than an insertion.
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
