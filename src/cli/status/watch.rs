//! `serin status --watch`: the same, again at each change.
//!
//! On a terminal the picture is redrawn, with times that run; anywhere else what has changed is added below. The watch of
//! the cluster goes on by itself when the server comes back: until then, what is shown is what was known, and that is said.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{Reader, one_line, print_more, print_note};
use crate::cli::reach::{PATIENCE, connection, explain};
use crate::cli::status::live::Live;
use crate::cli::status::page::{render_moment, render_page};
use crate::cli::status::row::AgentRow;
use crate::cli::status::view::AgentView;
use crate::cli::status::{OutputForm, Selection, render, render_data};
use crate::clock::{Clock, SystemClock};
use crate::cluster::api_server::{ApiServer, LabelRule, Namespaces, Settings, WatchState, Watched};
use crate::cluster::{Cluster, ClusterError};
use crate::object::Kind;
use crate::reconcile::serve::MANAGED_BY;
use crate::settings::{ClusterArgs, Environment};

/// How often times are shown anew, and an answer is looked for that does not come.
const TICK: Duration = Duration::from_secs(1);
/// Changes that come together are shown together: a rollout writes several objects at once.
const TOGETHER: Duration = Duration::from_millis(100);

/// Follows until a signal ends it, or nobody reads any more.
pub(super) async fn run(
    args: ClusterArgs,
    selection: &Selection,
    output: OutputForm,
    environment: &Environment,
) -> Result<ExitStatus, Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::internal)?;
    let follow = follow(args, selection, output, environment);
    tokio::select! {
        ended = follow => ended,
        _ = interrupt.recv() => Ok(ExitStatus::Ok),
        _ = terminate.recv() => Ok(ExitStatus::Ok),
    }
}

async fn follow(
    args: ClusterArgs,
    selection: &Selection,
    output: OutputForm,
    environment: &Environment,
) -> Result<ExitStatus, Failure> {
    let (label, value) = MANAGED_BY;
    let ours = LabelRule::Is(label.to_owned(), value.to_owned());
    let watches = vec![Watched::all(Kind::AGENT_RUNTIME), Watched::labelled(Kind::DEPLOYMENT, ours)];
    let mut settings = Settings::watching(watches);
    if let Some(namespace) = &selection.namespace {
        settings.namespaces = Namespaces::These(vec![namespace.clone()]);
    }
    let connection = connection(args, environment);
    let server = ApiServer::connect(&connection, settings, Arc::new(SystemClock)).await;
    let server = Arc::new(server.map_err(Failure::unavailable)?);
    ready(&server).await?;
    let mut changes = server.changes();
    let mut screen = Screen::new(output, std::io::stdout().is_terminal());
    let mut tick = tokio::time::interval(TICK);
    loop {
        let live = Live::read(server.as_ref(), selection).await?;
        screen.note_silence(silence(&server));
        if screen.show(&live, selection).await? == Reader::Gone {
            return Ok(ExitStatus::Ok);
        }
        tokio::select! {
            _ = tick.tick() => {}
            _ = changes.next() => {
                tokio::time::sleep(TOGETHER).await;
                while changes.next().now_or_never().flatten().is_some() {}
            }
        }
    }
}

/// Waits for the first lists, and says what keeps them.
async fn ready(server: &ApiServer) -> Result<(), Failure> {
    let refused = async {
        loop {
            // What is refused now may be granted later, but somebody sits before the screen.
            let failing = server.watches().into_iter().find_map(|(_, _, state)| match state {
                WatchState::Failing(error @ ClusterError::Forbidden { .. }) => Some(error),
                WatchState::NotServed => None,
                _ => None,
            });
            if let Some(error) = failing {
                return error;
            }
            tokio::time::sleep(TOGETHER).await;
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            () = server.ready() => Ok(()),
            error = refused => Err(error),
        }
    });
    match outcome.await {
        Ok(outcome) => outcome.map_err(explain),
        Err(_) => {
            let why = server.watches().into_iter().find_map(|(_, _, state)| match state {
                WatchState::Failing(error) => Some(error),
                _ => None,
            });
            Err(why.map_or_else(
                || {
                    let message = format!("the cluster did not answer within {} seconds", PATIENCE.as_secs());
                    Failure::message(ExitStatus::Unavailable, message)
                },
                explain,
            ))
        }
    }
}

/// Why what is shown may be old; `None`: it is not.
fn silence(server: &ApiServer) -> Option<ClusterError> {
    server.watches().into_iter().find_map(|(_, _, state)| match state {
        WatchState::Behind(error) => Some(error),
        WatchState::Starting | WatchState::NotServed | WatchState::Listed | WatchState::Failing(_) => None,
    })
}

/// Where it is shown, and what is there already.
struct Screen {
    output: OutputForm,
    is_terminal: bool,
    shown: BTreeMap<String, String>,
    /// Why what is shown may be old.
    silence: Option<String>,
    has_begun: bool,
}

impl Screen {
    fn new(output: OutputForm, is_terminal: bool) -> Self {
        Self { output, is_terminal, shown: BTreeMap::new(), silence: None, has_begun: false }
    }

    /// Whether the picture is redrawn.
    fn is_redrawn(&self) -> bool {
        self.is_terminal && self.output == OutputForm::Table
    }

    /// Where the picture is redrawn, the note is a part of it: one beside it would be wiped off a moment later.
    fn note_silence(&mut self, why: Option<ClusterError>) {
        let is_noted_beside = !self.is_redrawn();
        match (why, &self.silence) {
            (Some(error), None) => {
                let note = format!("note: {error}; what is shown is what was known");
                if is_noted_beside {
                    print_note(&note);
                }
                self.silence = Some(note);
            }
            (None, Some(_)) => {
                if is_noted_beside {
                    print_note("note: the API server answers again");
                }
                self.silence = None;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    async fn show(&mut self, live: &Live, selection: &Selection) -> Result<Reader, Failure> {
        let now = SystemClock.now();
        let shown = match live.one(selection) {
            Ok(Some(view)) => Shown::One(Box::new(view)),
            Ok(None) => Shown::All(live.rows()),
            // One that was there and is gone may come back.
            Err(failure) if self.has_begun && failure.status() == ExitStatus::NotFound => Shown::Gone,
            Err(failure) => return Err(failure),
        };
        self.has_begun = true;
        if self.is_redrawn() {
            let note = self.silence.as_ref().map(|note| format!("\n{note}\n")).unwrap_or_default();
            // To the top, and nothing is left of what was longer.
            return print_more(&format!("\u{1b}[H\u{1b}[2J{}{note}", shown.page(now)?));
        }
        let added = self.added(shown.entries(self.output)?, now);
        if added.is_empty() { Ok(Reader::There) } else { print_more(&added) }
    }

    /// What is not shown yet.
    fn added(&mut self, entries: BTreeMap<String, String>, now: Timestamp) -> String {
        let time = now.strftime("%H:%M:%S");
        let gone = self.shown.keys().filter(|name| !entries.contains_key(*name));
        let mut added: Vec<String> = match self.output {
            OutputForm::Table => gone.map(|name| format!("{time}  {name} is gone\n")).collect(),
            OutputForm::Json | OutputForm::Yaml => Vec::new(),
        };
        let is_new = |(name, entry): &(&String, &String)| self.shown.get(*name) != Some(*entry);
        added.extend(entries.iter().filter(is_new).map(|(name, entry)| match self.output {
            OutputForm::Table => format!("{time}  {name}  {entry}\n"),
            // One line or document for each change, so that a reader knows where it ends.
            OutputForm::Json => format!("{entry}\n"),
            OutputForm::Yaml => format!("---\n{}\n", entry.trim_end()),
        }));
        self.shown = entries;
        added.concat()
    }
}

/// What there is to show at one moment.
enum Shown {
    One(Box<AgentView>),
    All(Vec<AgentRow>),
    Gone,
}

impl Shown {
    /// The whole picture.
    fn page(&self, now: Timestamp) -> Result<String, Failure> {
        match self {
            Self::One(view) => Ok(render_page(view, now)),
            Self::All(rows) => render(rows, OutputForm::Table),
            Self::Gone => Ok("the agent is gone\n".to_owned()),
        }
    }

    /// Each agent by itself, by its name: what is the same as before is not shown again.
    fn entries(&self, output: OutputForm) -> Result<BTreeMap<String, String>, Failure> {
        match self {
            Self::One(view) => {
                let entry = match output {
                    OutputForm::Table => render_moment(view),
                    OutputForm::Json => serde_json::to_string(view).map_err(Failure::internal)?,
                    OutputForm::Yaml => render_data(view.as_ref(), output)?,
                };
                Ok(BTreeMap::from([(view.status.agent.to_string(), entry)]))
            }
            Self::All(rows) => {
                let entry = |row: &AgentRow| {
                    // An age is no change.
                    let row = AgentRow { age_seconds: None, ..row.clone() };
                    let text = match output {
                        OutputForm::Table => row_line(&row),
                        OutputForm::Json => serde_json::to_string(&row).map_err(Failure::internal)?,
                        OutputForm::Yaml => render_data(&row, output)?,
                    };
                    Ok((format!("{}/{}", row.namespace, row.name), text))
                };
                rows.iter().map(entry).collect()
            }
            Self::Gone => Ok(BTreeMap::new()),
        }
    }
}

/// A row on one line, without its name.
fn row_line(row: &AgentRow) -> String {
    let [_, _, step, weight, delivered, stable, candidate, _, waits_for] = row.cells();
    let versions = format!("stable {stable}  candidate {candidate}");
    let line =
        format!("step {step}  weight {weight} asked for, {delivered} delivered  {versions}  {}", one_line(&waits_for));
    line.trim_end().to_owned()
}
