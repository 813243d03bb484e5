//! The files of one commit together: what is desired, and what must be left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::names::candidate_deployment;
use crate::ids::TreePath;
use crate::object::{Kind, ObjectKey};

use super::diagnostic::{Diagnostic, Problem, Severity};
use super::load::{Entry, LoadedFile, Located};

/// What the files of one commit say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// What may be applied.
    pub objects: BTreeMap<ObjectKey, Arc<Located>>,
    /// What may not, because it is invalid, not granted or there twice: the live object is kept as it is.
    pub held: BTreeSet<ObjectKey>,
    /// Files with something in them that cannot be told: while there are any, nothing may be pruned.
    pub unreadable: Vec<TreePath>,
    /// Everything that is wrong, by file and place.
    pub problems: Vec<Diagnostic>,
}

impl Desired {
    /// Whether objects that are no longer in git may be deleted from the cluster.
    pub fn allows_pruning(&self) -> bool {
        self.unreadable.is_empty()
    }

    /// What may be applied and is another object than before, and what was there before and is no longer. An object that was
    /// taken over from an unchanged file is known by its address, so this costs a look at each and no comparison.
    pub fn changes_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> (Vec<(&'a ObjectKey, &'a Arc<Located>)>, Vec<&'a ObjectKey>) {
        let is_new = |(key, located): &(&ObjectKey, &Arc<Located>)| {
            before.objects.get(*key).is_none_or(|old| !Arc::ptr_eq(old, located))
        };
        let is_gone = |key: &&ObjectKey| !self.objects.contains_key(*key) && !self.held.contains(*key);
        let gone = before.objects.keys().chain(&before.held).filter(is_gone).collect();
        (self.objects.iter().filter(is_new).collect(), gone)
    }

    /// Whether nothing is refused. There may be warnings.
    pub fn is_clean(&self) -> bool {
        !self.problems.iter().any(Diagnostic::is_error)
    }
}

/// Puts the files of one commit together. Their order does not matter.
pub fn assemble<'a>(files: impl IntoIterator<Item = &'a LoadedFile>) -> Desired {
    let mut desired = Desired::default();
    let mut places: BTreeMap<SameObject<'a>, Vec<(&'a LoadedFile, &'a Entry)>> = BTreeMap::new();
    for file in files {
        desired.problems.extend(file.problems.iter().cloned());
        if file.is_unreadable {
            desired.unreadable.push(file.path.clone());
        }
        for entry in &file.entries {
            places.entry(SameObject::of(&entry.key)).or_default().push((file, entry));
        }
    }
    for found in places.values_mut() {
        found.sort_by(|a, b| (&a.0.path, a.1.name_at).cmp(&(&b.0.path, b.1.name_at)));
        match &found[..] {
            [(_, entry)] => match &entry.located {
                Some(located) => {
                    desired.objects.insert(entry.key.clone(), Arc::clone(located));
                }
                None => {
                    desired.held.insert(entry.key.clone());
                }
            },
            _ => report_twice(found, &mut desired),
        }
    }
    hold_agents_that_collide(&places, &mut desired);
    desired.unreadable.sort();
    desired.unreadable.dedup();
    desired.problems.sort();
    desired.problems.dedup();
    desired
}

/// An object by what the API server tells it apart by: the version is not part of it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SameObject<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> SameObject<'a> {
    fn of(key: &'a ObjectKey) -> Self {
        Self { group: &key.kind.group, kind: &key.kind.kind, namespace: &key.namespace, name: &key.name }
    }
}

fn place(file: &LoadedFile, entry: &Entry) -> String {
    format!("{}:{}:{}", file.path, entry.name_at.line, entry.name_at.column)
}

/// How many places of one object are named, and get a problem of their own. Of an object that a script wrote into a hundred
/// thousand files, each would name all others.
const MAX_PLACES: usize = 10;

/// Which of the two is meant cannot be told, so neither is applied.
fn report_twice(found: &[(&LoadedFile, &Entry)], desired: &mut Desired) {
    for (_, entry) in found {
        desired.held.insert(entry.key.clone());
    }
    for (i, (file, entry)) in found.iter().enumerate().take(MAX_PLACES) {
        let is_other = |(j, _): &(usize, &(&LoadedFile, &Entry))| *j != i;
        let mut others: Vec<String> = found
            .iter()
            .enumerate()
            .filter(is_other)
            .take(MAX_PLACES)
            .map(|(_, (file, entry))| place(file, entry))
            .collect();
        if found.len() - 1 > MAX_PLACES {
            others.push(format!("{} other places", found.len() - 1 - MAX_PLACES));
        }
        desired.problems.push(Diagnostic {
            file: file.path.clone(),
            position: entry.name_at,
            severity: Severity::Error,
            problem: Problem::Duplicate,
            object: Some(entry.key.clone()),
            field: "metadata.name".to_owned(),
            message: format!(
                "{} is also in {}: {} is applied",
                entry.key,
                others.join(" and "),
                if others.len() == 1 { "neither" } else { "none of them" }
            ),
            hint: Some("remove all but one, or give them other names or namespaces".to_owned()),
            snippet: entry.name_snippet.clone(),
        });
    }
}

/// An agent whose candidate would be called like another agent: both would write the same Deployment.
fn hold_agents_that_collide(places: &BTreeMap<SameObject<'_>, Vec<(&LoadedFile, &Entry)>>, desired: &mut Desired) {
    let rolling: Vec<ObjectKey> = desired
        .objects
        .iter()
        .filter(|(key, located)| key.kind == Kind::AGENT_RUNTIME && located.object().at("/spec/rollout").is_some())
        .map(|(key, _)| key.clone())
        .collect();
    for key in rolling {
        let other = ObjectKey::new(Kind::AGENT_RUNTIME, &key.namespace, candidate_deployment(&key.name));
        let (Some(own), Some(others)) = (places.get(&SameObject::of(&key)), places.get(&SameObject::of(&other))) else {
            continue;
        };
        let ([(file, entry)], Some((other_file, other_entry))) = (&own[..], others.first()) else { continue };
        desired.objects.remove(&key);
        desired.held.insert(key.clone());
        desired.problems.push(Diagnostic {
            file: file.path.clone(),
            position: entry.name_at,
            severity: Severity::Error,
            problem: Problem::Conflict,
            object: Some(key.clone()),
            field: "metadata.name".to_owned(),
            message: format!(
                "its candidate would be called {:?}, as the agent in {} is",
                other.name,
                place(other_file, other_entry)
            ),
            hint: Some("give one of the two another name, or remove `spec.rollout` here".to_owned()),
            snippet: entry.name_snippet.clone(),
        });
    }
}
