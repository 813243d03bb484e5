//! Serin: GitOps rollouts for AI agents on Kubernetes.
//!
//! This page is the architecture. It tells the story of one pass, names the stages in the order in which it goes through
//! them, and ends with what must always hold.
//!
//! # The picture
//!
//! ```text
//!        reads                               decides (pure)                          acts (idempotent)
//!
//!  git ───► manifest ───► apply::plan_sync ───────────────────────────────► cluster.apply   (serin-sync)
//!  snapshot  documents,    desired against live,                             spec as git says
//!            located       what is gone is pruned
//!            problems
//!                              ┌──────────────────────────────────────────► cluster.apply   (serin-rollout)
//!  cluster ──► World ───► rollout::evaluate_with(Memo, World, now)           record, status, Deployments, ...
//!  (shared     agent,          │ read:      what do they say        (scene)
//!   watches)   packs,          │ decide:    where does it stand     (course)
//!              Deployments     │            how many pods each      (pods)
//!  clock ────► now             │            what is due             (decide)
//!                              │ write out: what differs            (effects, status)
//!                              └─► Decision ─► writeback::plan ─► commit ─► git.publish
//!                                              minimal edit,       on top of what was read,
//!                                              verified            or judged anew
//!
//!  what happened ───────► writeback::status_branch ───────────────────────► git.publish      (status branch)
//! ```
//!
//! # One pass
//!
//! 1. A [`reconcile::Key`] is due: a watch, a timer, a signal, a webhook or the pass before woke it. Wake-ups carry no data.
//! 2. [`reconcile::Core::run`] takes it, with the proof that this process leads ([`reconcile::leader::Leading`]). For an agent,
//!    the shell first makes the AgentRuntime what git says ([`apply::plan_sync`]; of several sources, whose it is says
//!    [`apply::Claimants`]), then reads everything that bears on it into a [`rollout::World`].
//! 3. [`rollout::evaluate_with`] answers with effects in order, the decision that is due, and when to look again. It names no
//!    clock, no client and no repository. What it has worked out and need not work out again it leaves in a [`rollout::Memo`],
//!    which the shell keeps for the next pass as long as a rollout is in flight. Each thing in it lies beside all that it was made
//!    from and is used only while that is the same, so the answer is that of [`rollout::evaluate`], which has none; tests compare
//!    the two after every change that they can think of. It may be lost at any time, and of very many rollouts at once only some
//!    have one.
//! 4. The shell performs the effects: first what is durable (the record, the status), and with it what has become true is
//!    counted; then pods that come, then pods that go. The first failure ends the pass; the next one starts afresh. Events are
//!    recorded last, and also after a failure.
//! 5. A decision goes to the source's outbox; [`writeback::plan`](writeback::plan::plan) turns it into an edit of the
//!    user's file on top of the branch as it is at that moment, and many agents' decisions leave in one push. A lost race is
//!    judged anew on the new tip.
//! 6. The commit comes back as any other: fetched, loaded, synced. Only then does the cluster's spec change.
//!
//! # The two seams
//!
//! The outside world is two traits in our own types: [`cluster::Cluster`] (objects in, objects out) and
//! [`git::Repository`] (a snapshot in, commits out); beside them [`clock::Clock`]. Each has a real implementation and one
//! inside this process, and one contract suite runs the same cases against both. The demo, the preview to come and the fault
//! search are the same engine and the same shell on the simulated parts.
//!
//! Room for what comes: routing by a mesh is a second way to deliver weight beside [`rollout::record::Delivery`]'s, with its
//! objects among the effects; measurements are one more thing in the `World` and one more effect; a release-channel trigger
//! is one more decision.
//!
//! # What always holds
//!
//! * Decisions are functions of what was observed and the time. A test reads the sources and refuses a pure module that
//!   names tokio, kube, git2, tracing or a clock.
//! * Promotion is git first, rollback is traffic first.
//! * Of several Serins of one cluster, one writes: each write asks for the proof again.
//! * Weight is on available pods only, and pods go after the weight has left them.
//! * What has to survive is in git or in the cluster: `spec` (git's), `status.rollout` (the step, that a promotion has begun,
//!   that a rollout is over), one annotation (the [`rollout::Record`]). Everything in memory is a cache or a courtesy.
//! * What only people read may be written a moment later ([`rollout::Effect::Defer`]); what a decision rests on may not.
//! * The work of a push is that of its change: what a commit says ([`manifest::Assembly`]) shares with the commit before what
//!   both say alike, and so does what differs between them. The status branch is told what has changed. Everything is looked
//!   at again from time to time all the same. A change of what others refer to (a pack, a Provider, a credential) leads to
//!   those who do, without a look at all others.
//! * What traffic depends on waits for nothing that can wait: agents in flight and times that have come go before a push that
//!   changes thousands ([`reconcile::queue`]). What is refused, or not answered, holds up nothing else.
//! * What is not looked at takes little room: objects of git and of the cluster are kept as [`packed`] text and opened by who
//!   asks; lists are taken in page by page and compared with git piece by piece.
//! * Every effect is a level and may be repeated; at rest there are none.
//! * One object is created by one caller at a time: to the API server, two of ours are one and the same manager.
//! * Serin writes only what it owns, by server-side apply under two field managers, and deletes only what carries its
//!   owner reference or its tracking annotation.
//! * A person's commit is never lost: pushes are fast-forwards of what was read.

// The story's nouns, then its stages in order, then what surrounds them.
pub mod ids;
pub mod object;
pub mod packed;

pub mod git;
pub mod manifest;
pub mod api;
pub mod cluster;
pub mod apply;
pub mod workload;
pub mod rollout;
pub mod writeback;
pub mod reconcile;

pub mod chain;
pub mod clock;
pub mod settings;
pub mod telemetry;
pub mod web;
pub mod cli;
