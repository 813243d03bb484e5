//! Readiness: named checks, each kept up to date by whoever knows.
//!
//! A check is about having begun, not about all being well: a repository that cannot be reached is a
//! state that the daemon works in, and taking the pod out of service would help nobody. So a check becomes
//! ready once its first attempt has ended, whatever its end, and says what it found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

/// All checks of the process. Clones are the same checks.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    checks: BTreeMap<String, CheckState>,
    is_stopping: bool,
}

#[derive(Clone, Debug)]
struct CheckState {
    is_ready: bool,
    detail: String,
}

/// One check, in the hands of whoever knows.
#[derive(Clone, Debug)]
pub struct Check {
    name: String,
    health: Health,
}

impl Health {
    /// No checks yet, which is ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the check `name`, not ready: it waits for `what`.
    pub fn check(&self, name: impl Into<String>, what: impl Into<String>) -> Check {
        let check = Check { name: name.into(), health: self.clone() };
        check.set(false, what.into());
        check
    }

    /// From now on nothing is ready: the process ends.
    pub fn stop(&self) {
        self.state().is_stopping = true;
    }

    /// Whether every check is ready and the process does not end.
    pub fn is_ready(&self) -> bool {
        let state = self.state();
        !state.is_stopping && state.checks.values().all(|check| check.is_ready)
    }

    /// What `/readyz` answers: whether all is ready, and each check.
    pub fn report(&self) -> Value {
        let is_ready = self.is_ready();
        let state = self.state();
        let checks: Vec<Value> = state
            .checks
            .iter()
            .map(|(name, check)| json!({"name": name, "ready": check.is_ready, "detail": check.detail}))
            .collect();
        json!({"ready": is_ready, "stopping": state.is_stopping, "checks": checks})
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of the checks panics")
    }
}

impl Check {
    /// It is ready, and `detail` says what was found.
    pub fn ready(&self, detail: impl Into<String>) {
        self.set(true, detail.into());
    }

    /// It is not ready, and waits for `what`.
    pub fn waits_for(&self, what: impl Into<String>) {
        self.set(false, what.into());
    }

    fn set(&self, is_ready: bool, detail: String) {
        self.health.state().checks.insert(self.name.clone(), CheckState { is_ready, detail });
    }
}
