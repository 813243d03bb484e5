//! Creations of one object, one after the other.
//!
//! A server-side apply by the manager that has just made the object is no conflict but a change of it: of two creations side
//! by side, the second would take over what the first has made. Behind the first, it meets an object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use crate::object::ObjectKey;

/// The creations under way.
#[derive(Default)]
pub(super) struct Creations(Mutex<BTreeMap<ObjectKey, Weak<tokio::sync::Mutex<()>>>>);

/// The turn to create an object; it ends when this is dropped.
pub(super) struct Turn<'a> {
    creations: &'a Creations,
    key: ObjectKey,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Creations {
    /// Waits until nobody else is creating the object.
    pub(super) async fn turn(&self, key: &ObjectKey) -> Turn<'_> {
        let lock = {
            let mut under_way = self.under_way();
            let lock = under_way.get(key).and_then(Weak::upgrade).unwrap_or_default();
            under_way.insert(key.clone(), Arc::downgrade(&lock));
            lock
        };
        let mut turn = Turn { creations: self, key: key.clone(), turn: None };
        turn.turn = Some(lock.lock_owned().await);
        turn
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Weak<tokio::sync::Mutex<()>>>> {
        // Each change of the map is whole in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut under_way = self.creations.under_way();
        self.turn = None;
        if under_way.get(&self.key).is_some_and(|lock| lock.strong_count() == 0) {
            under_way.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::object::Kind;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::CONFIG_MAP, "prod", name)
    }

    #[tokio::test]
    async fn the_second_to_create_an_object_waits_for_the_first_and_others_do_not() {
        let (creations, a) = (Creations::default(), key("a"));
        let first = creations.turn(&a).await;
        assert!(creations.turn(&key("b")).now_or_never().is_some());
        let mut second = Box::pin(creations.turn(&a));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_creations_that_have_ended_or_were_given_up() {
        let (creations, a) = (Creations::default(), key("a"));
        let first = creations.turn(&a).await;
        assert!(creations.turn(&a).now_or_never().is_none());
        let mut given_up = Box::pin(creations.turn(&a));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(first);
        drop(given_up);
        assert!(creations.under_way().is_empty());
    }
}
