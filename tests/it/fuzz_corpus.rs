//! The properties of the fuzz targets, over their corpora and over mutations of them: on every machine, without a fuzzer.
//!
//! `SERIN_FUZZ_ROUNDS=1000 cargo test --test it fuzz_corpus` tries so many mutations of each input.
//! `cargo fuzz run --dev --sanitizer none <target>` goes on where this ends; what it finds becomes a file of the corpus.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

#[path = "../../fuzz/properties/duration.rs"]
mod duration;
#[path = "../../fuzz/properties/edit.rs"]
mod edit;
#[path = "../../fuzz/properties/manifest.rs"]
mod manifest;
#[path = "../../fuzz/properties/webhook.rs"]
mod webhook;

/// Pieces that mean something to the readers.
const WORDS: [&str; 28] = [
    "\n",
    "---\n",
    "...\n",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "#",
    "\t",
    "\r\n",
    "\u{feff}",
    "null",
    "0x1F",
    "1h",
    ".5ms",
    "~",
    "%YAML 1.2\n",
    "\u{e9}",
];

/// A generator of numbers that are the same in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).expect("a small number")).expect("a small number")
    }
}

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("fuzz/corpus").join(target)];
    // The manifests that decisions are tried on are a corpus already.
    if matches!(target, "manifest" | "edit") {
        folders.push(root.join("tests/corpus"));
    }
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let mut corpus: Vec<_> = files
        .filter(|path| path.extension().is_none_or(|extension| extension != "snap"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    corpus.sort();
    assert!(corpus.len() >= 10, "{target} has {} inputs", corpus.len());
    corpus
}

fn mutate(input: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut data = input.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len() + 1);
        match numbers.below(6) {
            0 => {
                let end = (at + numbers.below(20)).min(data.len());
                data.drain(at..end);
            }
            1 => {
                data.splice(at..at, WORDS[numbers.below(WORDS.len())].bytes());
            }
            2 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << numbers.below(8);
                }
            }
            3 => {
                let from = numbers.below(other.len());
                let end = (from + numbers.below(60)).min(other.len());
                data.splice(at..at, other[from..end].iter().copied());
            }
            4 => {
                let end = (at + numbers.below(40)).min(data.len());
                let copy = data[at..end].to_vec();
                data.splice(at..at, copy);
            }
            _ => data.truncate(at),
        }
    }
    data
}

/// Holds the corpus and `rounds` mutations of each input to `property`.
#[expect(clippy::print_stdout, reason = "how much was tried belongs to the output of the test")]
fn hold(target: &str, rounds: usize, property: fn(&[u8])) {
    let corpus = corpus(target);
    let rounds = std::env::var("SERIN_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(rounds);
    let mut numbers = Numbers(0x5e21_9000_0000_0001);
    let mut tried = 0;
    for (name, input) in &corpus {
        for round in 0..=rounds {
            let data = match round {
                0 => input.clone(),
                _ => mutate(input, &corpus[numbers.below(corpus.len())].1, &mut numbers),
            };
            tried += 1;
            let outcome = catch_unwind(AssertUnwindSafe(|| property(&data)));
            assert!(outcome.is_ok(), "{target}, from {name}:\n{:?}\n{}", data, String::from_utf8_lossy(&data));
        }
    }
    println!("{target}: {tried} inputs from {}", corpus.len());
}

#[test]
fn manifests_of_any_bytes_are_answered() {
    hold("manifest", 12, manifest::holds);
}

#[test]
fn edits_of_any_file_change_exactly_what_they_say() {
    hold("edit", 12, edit::holds);
}

#[test]
fn durations_are_those_of_go() {
    hold("duration", 300, duration::holds);
}

#[test]
fn webhooks_are_heard_only_from_who_knows_the_secret() {
    hold("webhook", 300, webhook::holds);
}
