//! What was worked out about one agent, for the next look at it.
//!
//! From one pass to the next little changes: a status, a number of pods. To read the spec, to find what it names, to render
//! Deployments and to compare them with what lives is most of the work of a pass, and its outcome is most often that of the
//! pass before. So it is kept, beside everything that it was made from, and made again when any of that is another.
//!
//! Invariant: the verdict is the same with and without. What is kept is made by functions that are given nothing but what it
//! is kept beside: no field can be forgotten in a comparison, because whoever makes it would not have it. The agent itself
//! comes to them as its [essence](super::essence). Equal is what is equal by value; where it is the same object in memory, which
//! the memo keeps alive, that is only found out sooner.

use crate::rollout::reading::Reading;
use crate::rollout::rendering::Rendering;

/// What [`evaluate_with`](super::evaluate_with) need not work out again. It belongs to one agent, may be lost at any time, and
/// is better dropped when the agent is at rest: it holds copies of most that an agent runs as.
#[derive(Debug, Default)]
pub struct Memo {
    /// What the spec says.
    pub(crate) reading: Reading,
    /// What it is rendered to.
    pub(crate) rendering: Rendering,
}
