//! What the programs here share: sizes from the command line, a clock, and a table that judges itself.
//!
//! Each program measures Serin and, in the same run on the same machine, the floor: the least that anything which does this
//! job must do. What counts is the ratio; a time alone says more about the machine. So the load of the machine is printed with
//! each table, and a figure that was taken on a busy one is no figure.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The time, for measuring.
#[expect(clippy::disallowed_methods, reason = "a measurement is about the real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How long this thread has been on a processor: what others do on the machine counts less than in the time of the clock.
pub(crate) fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    Duration::from_nanos(nanoseconds)
}

/// The value of `--name=value` on the command line or of the environment variable `NAME`, else what is usual.
pub(crate) fn option(name: &str, usual: u64) -> u64 {
    let flag = format!("--{name}=");
    let given = std::env::args().find_map(|argument| argument.strip_prefix(&flag).map(str::to_owned));
    let given = given.or_else(|| std::env::var(name.to_uppercase().replace('-', "_")).ok());
    match given {
        None => usual,
        Some(text) => text.parse().unwrap_or_else(|_| panic!("--{name} is a number, not {text:?}")),
    }
}

/// Looks again and again, for as long as `count` of anything may take on a slow machine, and the more rarely the more there are:
/// lists cost the API server, too.
pub(crate) async fn patiently<F: Future<Output = bool>>(count: u64, what: &str, mut holds: impl FnMut() -> F) {
    let (started, pause) = (now(), Duration::from_millis(50 + count / 5));
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(300 + count), "{what}");
        tokio::time::sleep(pause).await;
    }
}

/// The files of an application without pods: an agent, a pack, a ConfigMap. The note is a field of the agent.
pub(crate) fn application(namespace: &str, i: u64, note: &str) -> [(String, String); 2] {
    let agent = format!(
        "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: AgentRuntime\nmetadata:\n  name: agent-{i}\n  namespace: {namespace}\n  \
         annotations:\n    note: {note}\nspec:\n  facades:\n    - type: websocket\n      port: 8080\n  promptPackRef:\n    \
         name: pack-{i}\n    version: 1.0.0\n  runtime:\n    replicas: 0\n"
    );
    let pack = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: pack-{i}\n  namespace: {namespace}\ndata:\n  pack.json: '{{}}'\n---\n\
         apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: PromptPack\nmetadata:\n  name: pack-{i}\n  namespace: {namespace}\nspec:\n  \
         packName: pack-{i}\n  version: 1.0.0\n  source:\n    type: configmap\n    configMapRef:\n      name: pack-{i}\n"
    );
    [(format!("apps/{i}/agent.yaml"), agent), (format!("apps/{i}/pack.yaml"), pack)]
}

/// What a row must be for its goal to be reached.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// Ours at most so much.
    AtMost(f64),
    /// Ours at least so much.
    AtLeast(f64),
    /// Ours at most so many times the floor.
    Ratio(f64),
    /// None: the row explains another one.
    Told,
}

/// A table of results.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 5]>,
}

impl Table {
    /// Adds a row. `unit` follows both numbers.
    pub(crate) fn row(&mut self, what: &str, ours: f64, floor: Option<f64>, unit: &str, goal: Goal) {
        let number = |value: f64| match value.abs() {
            small if small < 1.0 => format!("{value:.4} {unit}"),
            middle if middle < 100.0 => format!("{value:.2} {unit}"),
            _ => format!("{value:.0} {unit}"),
        };
        let ratio = floor.map(|floor| ours / floor);
        let said = |is_reached: bool| if is_reached { "reached" } else { "MISSED" };
        let goal = match goal {
            Goal::AtMost(most) => format!("<= {} {}", number(most), said(ours <= most)),
            Goal::AtLeast(least) => format!(">= {} {}", number(least), said(ours >= least)),
            Goal::Ratio(most) => format!("<= {most} x {}", said(ratio.is_some_and(|ratio| ratio <= most))),
            Goal::Told => String::new(),
        };
        self.rows.push([
            what.to_owned(),
            number(ours),
            floor.map(number).unwrap_or_default(),
            ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            goal,
        ]);
    }

    /// Prints it, with how busy the machine was.
    #[expect(clippy::print_stdout, reason = "the table is what these programs are for")]
    pub(crate) fn print(&self, floor: &str) {
        let head = ["", "ours", "floor", "ratio", "goal"].map(str::to_owned);
        let widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&head]).map(|row| row[column].chars().count());
                cells.max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in [&head].into_iter().chain(&self.rows) {
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(text, "{cell:width$}  ");
            }
            text.push('\n');
        }
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        println!("{text}floor: {floor}\nload of the machine: {}", load.trim_end());
    }
}
