//! From the bytes of files to what a sync may apply, each object with the place it came from.
//!
//! [`load_file`] is about one file and depends on nothing else, so its result can be kept by path and
//! blob id; [`Assembly`] puts the files of one commit together, from one commit to the next. Both are pure and never fail: what cannot
//! be used becomes a [`Diagnostic`], and what is known about the objects behind it ([`Desired::held`],
//! [`Desired::unreadable`]) keeps a sync from pruning them.
//!
//! [`Intake`] bounds what all files of a source cost together.
//!
//! In order: `split` finds the documents of a file, `parse` reads one into a tree of `node`s that know
//! their places, `list` takes the items out of a List, `object_rules` asks who it is and whether it is granted, `schema` and `validate` hold it
//! to its schema, `agent`, `analysis_template` and `prompt_pack` to what a schema cannot say.
//!
//! No line of a Secret is in a problem (`secrecy`).
//!
//! Invariant: nothing here accepts what the API server would refuse without saying so, and nothing drops a
//! field that Serin does not know.

mod agent;
mod analysis_template;
mod assemble;
mod diagnostic;
mod intake;
mod list;
mod load;
mod names;
mod near;
mod node;
mod object_rules;
mod parse;
mod prompt_pack;
mod rules;
mod schema;
mod secrecy;
mod split;
mod unsupported;
mod validate;

#[cfg(test)]
mod tests;

pub use assemble::{Assembly, Desired, assemble};
pub use diagnostic::{Diagnostic, Position, Problem, Severity, Snippet};
pub use intake::Intake;
pub use load::{LoadedFile, Located, MANIFEST_ENDINGS, Origin, is_manifest, load_file};
pub(crate) use near::nearest;
pub use rules::{ClusterScoped, DEFAULT_MAX_FILE_BYTES, KindRule, Namespaces, Rules};
pub use schema::{SchemaError, Schemas};
pub(crate) use split::{Document, NotJson, documents};
