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

/// How long something takes, and what it gives.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = now();
    let result = work();
    (started.elapsed(), result)
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
