//! The files of one commit together: what is desired, and what must be left alone.
//!
//! The next commit is put together from the one before and the files that it changes ([`Assembly::update`]): what both say
//! alike is shared between them and not looked at again, so that a push costs its change, however much lies beside it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::ordset::DiffItem as SetDiffItem;
use imbl::{OrdMap, OrdSet};

use crate::api::names::{candidate_deployment, candidate_of};
use crate::ids::TreePath;
use crate::object::{Kind, ObjectKey};

use super::diagnostic::{Diagnostic, Problem, Severity};
use super::intake::Intake;
use super::load::{Entry, LoadedFile, Located};

/// What the files of one commit say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// What may be applied.
    pub objects: OrdMap<ObjectKey, Arc<Located>>,
    /// What may not, because it is invalid, not granted or there twice: the live object is kept as it is.
    pub held: OrdSet<ObjectKey>,
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

    /// What may be applied and is another object than before, and what was there before and is no longer. What both share
    /// is not looked at.
    pub fn changes_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> (Vec<(&'a ObjectKey, &'a Arc<Located>)>, Vec<&'a ObjectKey>) {
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        for item in before.objects.diff(&self.objects) {
            match item {
                DiffItem::Add(key, located) | DiffItem::Update { new: (key, located), .. } => {
                    changed.push((key, located));
                }
                DiffItem::Remove(key, _) if !self.held.contains(key) => gone.push(key),
                DiffItem::Remove(..) => {}
            }
        }
        for item in before.held.diff(&self.held) {
            if let SetDiffItem::Remove(key) = item
                && !self.objects.contains_key(key)
            {
                gone.push(key);
            }
        }
        (changed, gone)
    }

    /// Whether nothing is refused. There may be warnings.
    pub fn is_clean(&self) -> bool {
        !self.problems.iter().any(Diagnostic::is_error)
    }
}

/// Puts the files of one commit together. Their order does not matter.
pub fn assemble(files: impl IntoIterator<Item = LoadedFile>) -> Desired {
    let mut assembly = Assembly::default();
    assembly.update(&[], files.into_iter().collect(), Vec::new());
    assembly.desired
}

/// The files of one commit, put together. A copy costs nothing and shares everything.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    files: OrdMap<TreePath, Arc<LoadedFile>>,
    /// The files about which there is something to say.
    troubled: OrdSet<TreePath>,
    /// The files of all objects that may not be applied, by [`identity`]. An object that may be says itself where it is.
    odd: OrdMap<ObjectKey, BTreeSet<TreePath>>,
    /// The versions that there ever were of each kind, by group and kind, so that an identity leads to keys.
    versions: BTreeMap<(Cow<'static, str>, Cow<'static, str>), BTreeSet<Kind>>,
    /// What stands for files that are not read.
    others: Vec<LoadedFile>,
    intake: Intake,
    desired: Desired,
}

/// Objects that a change may bear on, by identity, with the files that name them afterwards.
type Touched = BTreeMap<ObjectKey, BTreeSet<TreePath>>;

impl Assembly {
    /// What the files say together.
    pub fn desired(&self) -> &Desired {
        &self.desired
    }

    /// What the files have cost so far, without those at `paths`.
    pub fn intake_without<'a>(&self, paths: impl IntoIterator<Item = &'a TreePath>) -> Intake {
        let mut intake = self.intake.clone();
        paths.into_iter().filter_map(|path| self.files.get(path)).for_each(|file| intake.forget(file));
        intake
    }

    /// The files of which not all is told because others have so many problems: to be read again when anything changes.
    pub fn shortened(&self) -> impl Iterator<Item = &TreePath> {
        self.troubled.iter().filter(|path| self.files.get(*path).is_some_and(|file| !file.is_whole()))
    }

    /// Goes on to the next commit: the files at `gone` are not there any more, those in `read` are new or other than before.
    /// `others` stand for all that is not read; they name no objects.
    pub fn update(&mut self, gone: &[TreePath], read: Vec<LoadedFile>, others: Vec<LoadedFile>) {
        let mut touched = Touched::new();
        for path in gone.iter().chain(read.iter().map(|file| &file.path)) {
            let Some(old) = self.files.remove(path) else { continue };
            self.troubled.remove(path);
            self.intake.forget(&old);
            for entry in &old.entries {
                self.touch(&mut touched, &entry.key).remove(path);
            }
        }
        for file in read {
            for entry in &file.entries {
                let kind = &entry.key.kind;
                self.versions.entry((kind.group.clone(), kind.kind.clone())).or_default().insert(kind.clone());
                self.touch(&mut touched, &entry.key).insert(file.path.clone());
            }
            self.intake.count(&file);
            if file.is_unreadable || !file.problems.is_empty() {
                self.troubled.insert(file.path.clone());
            }
            self.files.insert(file.path.clone(), Arc::new(file));
        }
        // Whether an agent may be rolled out depends on who is called like its candidate.
        for id in touched.keys().cloned().collect::<Vec<_>>() {
            if let Some(name) = candidate_of(&id.name).filter(|_| is_agent(&id)) {
                let agent = ObjectKey::new(id.kind.clone(), &id.namespace, name);
                self.touch(&mut touched, &agent);
            }
        }
        for (id, places) in &touched {
            self.settle(id, places, &touched);
        }
        self.others = others;
        self.tell();
    }

    fn touch<'t>(&self, touched: &'t mut Touched, key: &ObjectKey) -> &'t mut BTreeSet<TreePath> {
        touched.entry(identity(key)).or_insert_with_key(|id| self.places(id))
    }

    /// The files that name an object, as far as it is settled.
    fn places(&self, id: &ObjectKey) -> BTreeSet<TreePath> {
        if let Some(places) = self.odd.get(id) {
            return places.clone();
        }
        self.keys(id)
            .filter_map(|key| self.desired.objects.get(&key))
            .map(|located| located.origin.file.clone())
            .collect()
    }

    /// The keys that may mean this object, whatever the version.
    fn keys(&self, id: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        let kinds = self.versions.get(&(id.kind.group.clone(), id.kind.kind.clone()));
        kinds.into_iter().flatten().map(|kind| ObjectKey::new(kind.clone(), &id.namespace, &id.name))
    }

    /// Every place that names an object, in order.
    fn entries<'s>(&'s self, id: &ObjectKey, places: &BTreeSet<TreePath>) -> Vec<(&'s LoadedFile, &'s Entry)> {
        let mut found = Vec::new();
        for file in places.iter().filter_map(|path| self.files.get(path)) {
            // They are sorted by that.
            let first = file.entries.partition_point(|entry| by_identity(&entry.key, id) == Ordering::Less);
            let of_it = file.entries[first..].iter().take_while(|entry| by_identity(&entry.key, id) == Ordering::Equal);
            found.extend(of_it.map(|entry| (file.as_ref(), entry)));
        }
        found.sort_by(|a, b| (&a.0.path, a.1.name_at).cmp(&(&b.0.path, b.1.name_at)));
        found
    }

    /// Decides about one object which is named in the files at `places` now.
    fn settle(&mut self, id: &ObjectKey, places: &BTreeSet<TreePath>, touched: &Touched) {
        let found = self.entries(id, places);
        let usable = match &found[..] {
            [(_, Entry { key, located: Some(located), .. })] if !self.collides(key, located, touched) => {
                Some((key.clone(), Arc::clone(located)))
            }
            _ => None,
        };
        let held: Vec<ObjectKey> = match usable {
            Some(_) => Vec::new(),
            None => found.iter().map(|(_, entry)| entry.key.clone()).collect(),
        };
        for key in self.keys(id).collect::<Vec<_>>() {
            if usable.as_ref().is_none_or(|(usable, _)| *usable != key) && self.desired.objects.contains_key(&key) {
                self.desired.objects.remove(&key);
            }
            if !held.contains(&key) && self.desired.held.contains(&key) {
                self.desired.held.remove(&key);
            }
        }
        if held.is_empty() {
            self.odd.remove(id);
        } else {
            self.odd.insert(id.clone(), places.clone());
            self.desired.held.extend(held);
        }
        if let Some((key, located)) = usable {
            self.desired.objects.insert(key, located);
        }
    }

    /// Whether this is an agent whose candidate would be called like another agent: both would write the same Deployment.
    fn collides(&self, key: &ObjectKey, located: &Located, touched: &Touched) -> bool {
        if key.kind != Kind::AGENT_RUNTIME {
            return false;
        }
        let id = namesake(key);
        let is_named = match touched.get(&id) {
            Some(places) => !places.is_empty(),
            None => !self.places(&id).is_empty(),
        };
        is_named && located.object().at("/spec/rollout").is_some()
    }

    /// Says what is wrong now.
    fn tell(&mut self) {
        let (mut problems, mut unreadable) = (Vec::new(), Vec::new());
        let troubled = self.troubled.iter().filter_map(|path| self.files.get(path).map(AsRef::as_ref));
        for file in troubled.chain(&self.others) {
            problems.extend(file.problems.iter().cloned());
            if file.is_unreadable {
                unreadable.push(file.path.clone());
            }
        }
        for (id, places) in &self.odd {
            match &self.entries(id, places)[..] {
                [(file, entry)] if entry.located.is_some() => {
                    let other = namesake(&entry.key);
                    let others = self.entries(&other, &self.places(&other));
                    if let Some((other_file, other_entry)) = others.first() {
                        problems.push(collision(file, entry, &other, &place(other_file, other_entry)));
                    }
                }
                [_] => {}
                found => problems.extend(twice(found)),
            }
        }
        unreadable.sort();
        unreadable.dedup();
        problems.sort();
        problems.dedup();
        (self.desired.unreadable, self.desired.problems) = (unreadable, problems);
    }
}

/// An object by what the API server tells it apart by: the version is not part of it.
fn identity(key: &ObjectKey) -> ObjectKey {
    let mut id = key.clone();
    id.kind.version = "".into();
    id
}

/// The order of identities.
pub(super) fn by_identity(a: &ObjectKey, b: &ObjectKey) -> Ordering {
    parts(a).cmp(&parts(b))
}

fn parts(key: &ObjectKey) -> [&str; 4] {
    [&key.kind.group, &key.kind.kind, &key.namespace, &key.name]
}

fn is_agent(id: &ObjectKey) -> bool {
    id.kind.group == Kind::AGENT_RUNTIME.group && id.kind.kind == Kind::AGENT_RUNTIME.kind
}

/// The agent that is called like the candidate of this one, if there is any.
fn namesake(agent: &ObjectKey) -> ObjectKey {
    identity(&ObjectKey::new(Kind::AGENT_RUNTIME, &agent.namespace, candidate_deployment(&agent.name)))
}

fn place(file: &LoadedFile, entry: &Entry) -> String {
    format!("{}:{}:{}", file.path, entry.name_at.line, entry.name_at.column)
}

/// How many places of one object are named, and get a problem of their own. Of an object that a script wrote into a hundred
/// thousand files, each would name all others.
const MAX_PLACES: usize = 10;

/// Which of the two is meant cannot be told, so neither is applied.
fn twice(found: &[(&LoadedFile, &Entry)]) -> impl Iterator<Item = Diagnostic> {
    found.iter().enumerate().take(MAX_PLACES).map(|(i, (file, entry))| {
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
        Diagnostic {
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
        }
    })
}

/// An agent whose candidate would be called like another agent, which stands at `place`.
fn collision(file: &LoadedFile, entry: &Entry, other: &ObjectKey, place: &str) -> Diagnostic {
    Diagnostic {
        file: file.path.clone(),
        position: entry.name_at,
        severity: Severity::Error,
        problem: Problem::Conflict,
        object: Some(entry.key.clone()),
        field: "metadata.name".to_owned(),
        message: format!("its candidate would be called {:?}, as the agent in {place} is", other.name),
        hint: Some("give one of the two another name, or remove `spec.rollout` here".to_owned()),
        snippet: entry.name_snippet.clone(),
    }
}
