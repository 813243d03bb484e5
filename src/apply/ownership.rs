//! Which of several sources an object belongs to.
//!
//! Ownership is in the cluster: the tracking annotation names the owner, so it outlives restarts and does not depend on
//! who was faster. It moves only where the settings say so (`adoptFrom`) and the owner holds the object no more. What
//! belongs to nobody yet goes to the first source of the settings that holds it.
//!
//! Invariant: an object that another source holds, or may hold, is not pruned: it would be gone for a moment, and with an
//! AgentRuntime everything that it runs as.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::names::{SOURCE_LABEL, TRACKING_ANNOTATION};
use crate::ids::SourceName;
use crate::manifest::{Desired, Rules};
use crate::object::{Object, ObjectKey};

/// One source, as far as ownership depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// Its name.
    pub source: &'a SourceName,
    /// The sources whose objects it takes over.
    pub adopts_from: &'a [SourceName],
    /// What is granted to it.
    pub rules: &'a Rules,
    /// What it says; `None`: it is not read yet.
    pub desired: Option<&'a Desired>,
    /// Whether it is known what it holds, or that this cannot be known for now.
    pub was_asked: bool,
    /// Whether it follows the same branch as the source that is synced, and is at another commit of it: what that commit
    /// has moved from one folder to the other, it does not hold yet.
    pub is_behind: bool,
}

/// All sources, in the order of the settings.
#[derive(Clone, Debug, Default)]
pub struct Claimants<'a>(pub Vec<Claimant<'a>>);

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// Of the source of this name, which need not be in the settings.
    Source(&'a str),
    /// Of nobody: no source holds it.
    Nobody,
    /// It is not there yet, and this source, which comes first, may hold it: it was not asked yet.
    Undecided(&'a SourceName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It is in git, valid or not.
    Held,
    /// Nothing was read yet, and the object is among what is granted.
    Unread,
    /// A file cannot be read, and what is in it is not known.
    Unreadable,
    /// It is not in git, or must not be.
    None,
}

impl Claimant<'_> {
    fn claim(&self, key: &ObjectKey) -> Claim {
        match self.desired {
            Some(desired) if desired.objects.contains_key(key) || desired.held.contains(key) => Claim::Held,
            Some(desired) if !desired.allows_pruning() && self.grants(key) => Claim::Unreadable,
            None if self.grants(key) => Claim::Unread,
            Some(_) | None => Claim::None,
        }
    }

    fn grants(&self, key: &ObjectKey) -> bool {
        let is_in_scope = key.namespace.is_empty() || self.rules.grants_namespace(&key.namespace);
        is_in_scope && self.rules.grants_kind(&key.kind)
    }
}

impl<'a> Claimants<'a> {
    /// Whose the object is, where the cluster says that it is `tracked` by that source.
    pub fn owner(&self, key: &ObjectKey, tracked: Option<&'a str>) -> Owner<'a> {
        let Some(tracked) = tracked else {
            for claimant in &self.0 {
                match claimant.claim(key) {
                    Claim::Held => return Owner::Source(claimant.source.as_str()),
                    // A repository that cannot be reached does not keep others from being installed.
                    Claim::Unread if !claimant.was_asked => return Owner::Undecided(claimant.source),
                    Claim::Unread | Claim::Unreadable | Claim::None => {}
                }
            }
            return Owner::Nobody;
        };
        if self.find(tracked).is_some_and(|owner| owner.claim(key) != Claim::None) {
            return Owner::Source(tracked);
        }
        let adopters =
            self.0.iter().filter(|claimant| claimant.adopts_from.iter().any(|from| from.as_str() == tracked));
        for adopter in adopters {
            match adopter.claim(key) {
                Claim::Held => return Owner::Source(adopter.source.as_str()),
                Claim::Unread => break,
                Claim::Unreadable | Claim::None => {}
            }
        }
        Owner::Source(tracked)
    }

    /// Whose the object is instead of `source`'s, which holds it too, and what to do; `None`: it is that one's, or it is
    /// not decided yet.
    pub fn refusal(&self, key: &ObjectKey, tracked: Option<&'a str>, source: &SourceName) -> Option<String> {
        let owner = match self.owner(key, tracked) {
            Owner::Source(owner) if owner != source.as_str() => owner,
            Owner::Source(_) | Owner::Nobody | Owner::Undecided(_) => return None,
        };
        let Some(tracked) = tracked else {
            return Some(format!(
                "{key} is in the source {owner} too, which comes first in the settings: remove it from one of the two"
            ));
        };
        if tracked != owner {
            return Some(format!(
                "{key} is taken over from {tracked} by the source {owner}, which comes first in the settings: remove it \
                 from one of the two"
            ));
        }
        let adopts =
            self.find(source.as_str()).is_some_and(|own| own.adopts_from.iter().any(|from| from.as_str() == owner));
        let claim = self.find(owner).map(|owner| owner.claim(key));
        let whose = format!("{key} belongs to the source {owner}");
        Some(match claim {
            None | Some(Claim::None) if adopts => {
                format!("{whose}, and another source that adopts from it is not read yet")
            }
            None => {
                format!("{whose}, which is not in the settings: with `adoptFrom: [{owner}]`, {source} takes it over")
            }
            Some(Claim::None) => format!(
                "{whose}, which holds it no more: with `adoptFrom: [{owner}]`, {source} takes it over; removed here too, it \
                 is deleted"
            ),
            Some(Claim::Held) if adopts => {
                format!("{whose}, which still holds it: {source} takes it over when it is gone there")
            }
            Some(Claim::Held) => format!("{whose}: remove it from one of the two"),
            Some(Claim::Unread | Claim::Unreadable) => {
                format!("{whose}, which may still hold it: not all of it can be read")
            }
        })
    }

    /// Why `source`, whose object is gone from git, must not delete it; `None`: it may.
    pub fn keeps(&self, key: &ObjectKey, source: &SourceName) -> Option<String> {
        self.0.iter().filter(|other| other.source != source).find_map(|other| {
            let (name, adopts) = (other.source, other.adopts_from.contains(source));
            match other.claim(key) {
                Claim::Held if adopts => Some(format!("the source {name} takes it over")),
                Claim::Held => Some(format!("the source {name} holds it")),
                Claim::Unread => Some(format!("the source {name} may hold it, and is not read yet")),
                Claim::Unreadable if adopts => {
                    Some(format!("the source {name} may take it over, and has a file that cannot be read"))
                }
                Claim::Unreadable | Claim::None if other.is_behind && other.grants(key) => {
                    Some(format!("the source {name} is not at this commit yet"))
                }
                Claim::Unreadable | Claim::None => None,
            }
        })
    }

    /// The objects of sources that are not in the settings any more, and that nobody takes over: they stay as they are.
    pub fn left_behind(&self, live: &[Arc<Object>]) -> BTreeMap<String, BTreeSet<ObjectKey>> {
        let mut left: BTreeMap<String, BTreeSet<ObjectKey>> = BTreeMap::new();
        for object in live {
            let Some(owner) = tracked_by(object).filter(|owner| self.find(owner).is_none()) else { continue };
            let key = object.key();
            if self.0.iter().all(|claimant| matches!(claimant.claim(&key), Claim::None | Claim::Unreadable)) {
                left.entry(owner.to_owned()).or_default().insert(key);
            }
        }
        left
    }

    fn find(&self, source: &str) -> Option<&Claimant<'a>> {
        self.0.iter().find(|claimant| claimant.source.as_str() == source)
    }
}

/// The value of the tracking annotation of an object that `source` applies:
/// `<source>:<group>/<kind>:<namespace>/<name>`.
pub fn tracking_id(source: &SourceName, key: &ObjectKey) -> String {
    format!("{source}:{}", tracking_key(key))
}

/// The source that an object belongs to, by its marks.
///
/// The annotation decides. One that names another object came along with a copy made by hand, which is nobody's. Where
/// there is none, somebody has taken it away, and the label says it still.
pub fn tracked_by(live: &Object) -> Option<&str> {
    match live.annotation(TRACKING_ANNOTATION) {
        Some(id) => {
            let (source, key) = id.split_once(':')?;
            (key == tracking_key(&live.key())).then_some(source)
        }
        None => live.label(SOURCE_LABEL),
    }
}

fn tracking_key(key: &ObjectKey) -> String {
    format!("{}/{}:{}/{}", key.kind.group, key.kind.kind, key.namespace, key.name)
}
