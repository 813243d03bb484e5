//! One file: its documents, the objects in them, and everything that is wrong with it.

use std::sync::Arc;

use crate::git::NotFollowed;
use crate::ids::TreePath;
use crate::object::{Kind, Object, ObjectKey};
use crate::packed::Packed;

use super::agent;
use super::analysis_template;
use super::assemble::by_identity;
use super::diagnostic::{Diagnostic, Lines, Position, Problem, Severity, Snippet, end_of};
use super::list::{is_list, items_of};
use super::node::{Content, Node};
use super::object_rules::{self, Identity};
use super::parse::{Allowance, Complaint, check_keys, parse_document};
use super::prompt_pack;
use super::rules::Rules;
use super::schema::Schemas;
use super::secrecy::{may_hold_secret, names_secret};
use super::split::{Document, NotJson, documents};
use super::unsupported::find_unsupported;
use super::validate::{Finding, QUOTE_IT, validate};

/// How large one object may be, in bytes: what etcd takes by default. The API server would refuse a larger one.
const MAX_OBJECT_BYTES: usize = 1_572_864;

/// How many problems of one file are told; the rest is counted.
const MAX_PROBLEMS: usize = 1_000;

/// How many documents one file may have.
const MAX_DOCUMENTS: usize = 20_000;

/// What is said of a document that may be a part of a Secret, in place of what it is.
const NOT_A_MAPPING: &str = "a Kubernetes object is a mapping, and this is none";

/// Where an object is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file.
    pub file: TreePath,
    /// The line on which the object begins, from 1.
    pub line: u32,
    /// The number of its document in the file, from 0. Documents are what `---` and `...` lines part; one that is
    /// empty counts, comments before the first `---` do not make one.
    pub document_index: usize,
    /// Its place in `items`, where the document is a `List`.
    pub list_item: Option<usize>,
}

/// An object with the place where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The object as it is applied.
    object: Packed,
    /// Where it is written.
    pub origin: Origin,
}

impl Located {
    /// An object and where it is written.
    pub fn new(object: Object, origin: Origin) -> Self {
        Self { object: Packed::alone(&Arc::new(object)), origin }
    }

    /// The object as it is applied.
    pub fn object(&self) -> Arc<Object> {
        self.object.open()
    }
}

/// What is known about one file. Depends on nothing but its path and bytes, the rules and the schemas.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedFile {
    pub(super) path: TreePath,
    /// In the order of [`by_identity`].
    pub(super) entries: Vec<Entry>,
    pub(super) is_unreadable: bool,
    pub(super) problems: Vec<Diagnostic>,
    /// How many bytes of it were read.
    pub(super) bytes: u64,
    /// Problems were left out because other files had so many.
    pub(super) is_shortened: bool,
}

/// One object that the file names, usable or not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: ObjectKey,
    /// Where its name stands: what problems between objects point to.
    pub(super) name_at: Position,
    pub(super) name_snippet: Option<Snippet>,
    /// `None`: it is invalid, and its live state is kept.
    pub(super) located: Option<Arc<Located>>,
}

impl LoadedFile {
    /// A file that was not read because it has more than `limit` bytes.
    pub fn too_large(path: &TreePath, limit: usize) -> Self {
        let mut file = Loader::new(path, "");
        file.refuse(
            Position::START,
            format!("the file has more than {limit} bytes and is not read"),
            Some("split it".to_owned()),
        );
        file.finish()
    }

    /// Something in the place of a file or a folder that is not read. `None`: nothing is lost by that.
    ///
    /// What was read there before may now be behind it, so nothing may be pruned.
    pub fn not_followed(path: &TreePath, what: NotFollowed) -> Option<Self> {
        if path.as_str().split('/').any(|part| part.starts_with(".git")) {
            return None;
        }
        let (severity, message, hint) = match what {
            NotFollowed::Submodule => (
                Severity::Warning,
                "a submodule is not followed; while it is here, nothing is pruned",
                "make it a source of its own, or point the path of the source beside it",
            ),
            NotFollowed::Link if is_manifest(path) => (
                Severity::Error,
                "this is a symbolic link, which is not followed",
                "commit the file itself in its place",
            ),
            NotFollowed::Link => return None,
            NotFollowed::FolderLink => (
                Severity::Warning,
                "a symbolic link to a folder is not followed; while it is here, nothing is pruned",
                "commit the folder itself in its place, or point the path of the source beside it",
            ),
            NotFollowed::StrayLink => (
                Severity::Warning,
                "a symbolic link out of the repository, or to nothing, is not followed; while it is here, nothing is \
                 pruned",
                "commit the file or folder itself in its place",
            ),
            NotFollowed::Name => {
                (Severity::Error, "the name is not UTF-8, and what it names is not read", "give it a name in UTF-8")
            }
        };
        let severity = if is_manifest(path) { Severity::Error } else { severity };
        let mut file = Loader::new(path, "").finish();
        file.is_unreadable = true;
        file.problems.push(Diagnostic {
            file: path.clone(),
            position: Position::START,
            severity,
            problem: Problem::File,
            object: None,
            field: String::new(),
            message: message.to_owned(),
            hint: Some(hint.to_owned()),
            snippet: None,
        });
        Some(file)
    }

    /// Whether all of its problems are told: what was left out because of other files may be told when those are
    /// mended.
    pub fn is_whole(&self) -> bool {
        !self.is_shortened
    }

    /// What is wrong with the file by itself, in order.
    pub fn problems(&self) -> &[Diagnostic] {
        &self.problems
    }
}

/// How the names of files end that may be manifests.
pub const MANIFEST_ENDINGS: &[&str] = &[".yaml", ".yml", ".json"];

/// Whether a file is taken for manifests: `.yaml`, `.yml` or `.json`, in any case, and not hidden. Files of the git
/// host (`.github`, `.gitlab`) are not.
pub fn is_manifest(path: &TreePath) -> bool {
    let mut parts = path.as_str().rsplit('/');
    let name = parts.next().unwrap_or_default();
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let is_named = MANIFEST_ENDINGS.iter().any(|known| extension.eq_ignore_ascii_case(&known[1..]));
    is_named && !stem.is_empty() && !name.starts_with('.') && !parts.any(|folder| folder.starts_with(".git"))
}

/// Reads one file. One that is not taken for manifests gives nothing.
pub fn load_file(path: &TreePath, bytes: &[u8], rules: &Rules, schemas: &Schemas) -> LoadedFile {
    if !is_manifest(path) {
        return Loader::new(path, "").finish();
    }
    if bytes.len() > rules.max_file_bytes {
        return LoadedFile::too_large(path, rules.max_file_bytes);
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => return not_text(path, bytes, error.valid_up_to()),
    };
    let mut loader = Loader::new(path, text);
    if text.starts_with("version https://git-lfs.github.com/spec/") {
        loader.refuse(
            Position::START,
            "this is a pointer to a file kept in Git LFS, not the file itself".to_owned(),
            Some("manifests are small: commit them without LFS".to_owned()),
        );
        return loader.finish();
    }
    let documents = match documents(path, text) {
        Ok(documents) => documents,
        Err(NotJson { at, why }) => {
            let complaint = Complaint { at, field: String::new(), message: why, hint: None };
            loader.complain(complaint, Problem::Syntax);
            return loader.finish();
        }
    };
    if documents.len() > MAX_DOCUMENTS {
        loader.refuse(
            Position::START,
            format!("the file has {} documents and may have {MAX_DOCUMENTS}", documents.len()),
            Some("split it".to_owned()),
        );
        return loader.finish();
    }
    let mut allowance = Allowance::new(rules.max_file_bytes);
    for document in documents {
        loader.document(document, &mut allowance, rules, schemas);
    }
    loader.finish()
}

fn not_text(path: &TreePath, bytes: &[u8], valid: usize) -> LoadedFile {
    // What comes before is UTF-8, so that line and column can be told.
    let before = String::from_utf8_lossy(&bytes[..valid]);
    let mut loader = Loader::new(path, &before);
    // What the file is may be said behind the bytes that are none.
    loader.hides_source |= may_hold_secret(&String::from_utf8_lossy(bytes));
    let is_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let hint = if is_utf16 { "it looks like UTF-16: save it as UTF-8" } else { "save it as UTF-8" };
    loader.refuse(end_of(&before), "the file is not UTF-8".to_owned(), Some(hint.to_owned()));
    loader.finish()
}

struct Loader<'a> {
    file: LoadedFile,
    text: &'a str,
    lines: Option<Lines<'a>>,
    /// The file may hold secrets, so that no line of it is quoted but those of documents that surely hold none.
    holds_secret: bool,
    /// Lines are not quoted now.
    hides_source: bool,
    /// Problems beyond [`MAX_PROBLEMS`].
    untold: usize,
}

impl<'a> Loader<'a> {
    fn new(path: &TreePath, text: &'a str) -> Self {
        let file = LoadedFile {
            path: path.clone(),
            entries: Vec::new(),
            is_unreadable: false,
            problems: Vec::new(),
            bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
            is_shortened: false,
        };
        let holds_secret = may_hold_secret(text);
        Self { file, text, lines: None, holds_secret, hides_source: holds_secret, untold: 0 }
    }

    fn finish(mut self) -> LoadedFile {
        if self.untold > 0 {
            self.file.problems.push(Diagnostic {
                file: self.file.path.clone(),
                // Behind all others.
                position: Position { column: 1, ..end_of(self.text) },
                severity: Severity::Error,
                problem: Problem::File,
                object: None,
                field: String::new(),
                message: format!("the file has {} more problems, which are not told one by one", self.untold),
                hint: None,
                snippet: None,
            });
        }
        self.file.problems.sort();
        self.file.problems.dedup();
        self.file.problems.shrink_to_fit();
        self.file.entries.shrink_to_fit();
        self.file.entries.sort_by(|a, b| by_identity(&a.key, &b.key));
        self.file
    }

    fn snippet(&mut self, at: Position) -> Option<Snippet> {
        if self.hides_source {
            return None;
        }
        let text = self.text;
        Snippet::of(self.lines.get_or_insert_with(|| Lines::new(text)), at)
    }

    fn report(&mut self, finding: Finding, object: Option<&ObjectKey>) {
        if self.file.problems.len() >= MAX_PROBLEMS {
            self.untold += 1;
            return;
        }
        let is_warning = finding.problem == Problem::Suspicious;
        let snippet = self.snippet(finding.at);
        let hint = match (finding.hint, &snippet) {
            (Some(hint), Some(snippet)) if hint == QUOTE_IT => Some(format!("{hint}: \"{}\"", snippet.marked())),
            (hint, _) => hint,
        };
        self.file.problems.push(Diagnostic {
            file: self.file.path.clone(),
            position: finding.at,
            severity: if is_warning { Severity::Warning } else { Severity::Error },
            problem: finding.problem,
            object: object.cloned(),
            field: finding.field,
            message: finding.message,
            hint,
            snippet,
        });
    }

    /// The file as a whole cannot be used.
    fn refuse(&mut self, at: Position, message: String, hint: Option<String>) {
        self.complain(Complaint { at, field: String::new(), message, hint }, Problem::File);
    }

    /// Something cannot be read, so that it is not known which objects stand in it.
    fn complain(&mut self, complaint: Complaint, problem: Problem) {
        let Complaint { at, field, message, hint } = complaint;
        self.file.is_unreadable = true;
        self.report(Finding { at, problem, field, message, hint }, None);
    }

    fn document(&mut self, document: Document<'_>, allowance: &mut Allowance, rules: &Rules, schemas: &Schemas) {
        // Where it cannot be read, a part of the Secret before it may be in it.
        self.hides_source = self.holds_secret;
        let root = match parse_document(document, allowance) {
            Ok(root) => root,
            Err(complaint) => return self.complain(complaint, Problem::Syntax),
        };
        let is_named = names_secret(&root);
        self.holds_secret |= is_named;
        self.hides_source = is_named || self.holds_secret && may_hold_secret(document.text);
        if self.is_kustomization_file() {
            self.file.is_unreadable = true;
            return self.report(object_rules::kustomization(&root), None);
        }
        match &root.content {
            Content::Null => {}
            _ if is_list(&root) => self.list(&root, document, rules, schemas),
            _ => self.object(&root, document, None, rules, schemas),
        }
    }

    fn is_kustomization_file(&self) -> bool {
        let name = self.file.path.as_str().rsplit('/').next().unwrap_or_default();
        matches!(name, "kustomization.yaml" | "kustomization.yml")
    }

    fn list(&mut self, root: &Node, document: Document<'_>, rules: &Rules, schemas: &Schemas) {
        let (items, complaints) = items_of(root);
        for complaint in complaints {
            self.complain(complaint, Problem::NotAnObject);
        }
        for (i, item) in items.iter().enumerate() {
            match &item.content {
                Content::Null => {}
                _ if is_list(item) => self.complain(
                    Complaint {
                        at: item.locate("kind"),
                        field: format!("items[{i}]"),
                        message: "a List inside a List is not read".to_owned(),
                        hint: Some("put its items into the outer one".to_owned()),
                    },
                    Problem::NotAnObject,
                ),
                _ => self.object(item, document, Some(i), rules, schemas),
            }
        }
    }

    fn object(
        &mut self,
        root: &Node,
        document: Document<'_>,
        list_item: Option<usize>,
        rules: &Rules,
        schemas: &Schemas,
    ) {
        let (duplicates, key_warnings) = check_keys(root);
        // With a key there twice it is not certain what the document says, its name included.
        let is_ambiguous = duplicates.iter().any(|duplicate| {
            matches!(
                duplicate.field.as_str(),
                "apiVersion" | "kind" | "metadata" | "metadata.name" | "metadata.namespace"
            )
        });
        let is_broken = !duplicates.is_empty();
        let syntax = duplicates.into_iter().map(|complaint| as_finding(complaint, Problem::Syntax));
        let mut findings: Vec<Finding> = syntax
            .chain(key_warnings.into_iter().map(|complaint| as_finding(complaint, Problem::Suspicious)))
            .collect();
        let origin =
            Origin { file: self.file.path.clone(), line: root.at.line, document_index: document.index, list_item };
        let key = match object_rules::identify(root, rules, schemas) {
            Identity::Unknown(found) => {
                findings.extend(found);
                self.file.is_unreadable = true;
                // As where it cannot be read: nobody knows what it is, and a stray `---` parts a Secret in two.
                self.hides_source |= self.holds_secret;
                if self.hides_source && !matches!(root.content, Content::Map(_)) {
                    findings.iter_mut().for_each(|finding| finding.message = NOT_A_MAPPING.to_owned());
                }
                return self.report_all(findings, None, list_item);
            }
            Identity::Refused(key, found) => {
                findings.extend(found);
                self.enter(root, key.clone(), None);
                return self.report_all(findings, Some(&key), list_item);
            }
            Identity::Granted(key) => key,
        };
        let (object, left_out) = check_object(root, &key, schemas, &mut findings);
        findings.extend(left_out);
        self.file.is_unreadable |= is_ambiguous;
        let is_usable = !is_broken && findings.iter().all(|finding| finding.problem == Problem::Suspicious);
        let located = object.filter(|_| is_usable).map(|object| Arc::new(Located::new(object, origin)));
        self.report_all(findings, Some(&key), list_item);
        self.enter(root, key, located);
    }

    fn enter(&mut self, root: &Node, key: ObjectKey, located: Option<Arc<Located>>) {
        let name_at = root.locate("metadata.name");
        let name_snippet = self.snippet(name_at);
        self.file.entries.push(Entry { key, name_at, name_snippet, located });
    }

    fn report_all(&mut self, findings: Vec<Finding>, key: Option<&ObjectKey>, list_item: Option<usize>) {
        for mut finding in findings {
            if let Some(i) = list_item {
                let dot = if finding.field.is_empty() { "" } else { "." };
                finding.field = format!("items[{i}]{dot}{}", finding.field);
            }
            self.report(finding, key);
        }
    }
}

fn as_finding(complaint: Complaint, problem: Problem) -> Finding {
    let Complaint { at, field, message, hint } = complaint;
    Finding { at, problem, field, message, hint }
}

/// Holds an object whose identity is known to everything that is known about its kind.
fn check_object(
    root: &Node,
    key: &ObjectKey,
    schemas: &Schemas,
    findings: &mut Vec<Finding>,
) -> (Option<Object>, Vec<Finding>) {
    let (nodes, bytes) = root.size();
    // What JSON needs at least: the texts, and two characters around each value.
    let least = bytes + 2 * nodes;
    if least > MAX_OBJECT_BYTES {
        findings.push(Finding {
            at: root.at,
            problem: Problem::InvalidField,
            field: String::new(),
            message: format!("the object has more than {least} bytes, and a cluster takes {MAX_OBJECT_BYTES}"),
            hint: Some("split it".to_owned()),
        });
        return (None, Vec::new());
    }
    if let Some(metadata) = root.entry("metadata") {
        findings.extend(validate(&metadata.value, &schemas.metadata, &["metadata"], metadata.key_at));
    }
    findings.extend(object_rules::check_keys_of_maps(root, key));
    if let Some(known) = schemas.find(&key.kind) {
        findings.extend(validate(root, &known.schema, &[], root.at));
    }
    let (object, left_out) = object_rules::to_object(root, key, schemas);
    if let Some(object) = &object {
        if key.kind == Kind::AGENT_RUNTIME {
            agent::merge(findings, agent::check(object, root));
            agent::merge(findings, find_unsupported(root));
        } else if key.kind == Kind::ROLLOUT_ANALYSIS {
            agent::merge(findings, analysis_template::check(root));
        } else if key.kind == Kind::PROMPT_PACK {
            agent::merge(findings, prompt_pack::check(object, root));
        }
    }
    (object, left_out)
}
