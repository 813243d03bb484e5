//! The fault search: whole rollouts on the simulated cluster and repository, with everything going wrong that can, each
//! run made from one seed.
//!
//! `SEEDS=100000 cargo test --test it fault_search` searches longer; `SEED=17` runs one seed and prints its trace.

mod driver;
mod invariants;
mod scenario;
mod weather;

use std::sync::atomic::{AtomicU64, Ordering};

use driver::Driver;

/// How many seeds run where nothing else is said. A seed is two to three whole rollouts, their storms and their calm.
const SEEDS: u64 = 1_000;

#[test]
fn no_fault_breaks_an_invariant() {
    if let Some(seed) = number("SEED") {
        let run = Driver::run(seed);
        println!("{}", run.trace());
        run.assert_unbroken();
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    // Among all other tests it is one thread, so that those that wait for real programs get their share of the machine.
    let threads = number("SEEDS").and_then(|_| std::thread::available_parallelism().ok()).map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let totals = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut totals = driver::Totals::default();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds {
                            return totals;
                        }
                        let run = Driver::run(seed);
                        run.assert_unbroken();
                        totals.add(run.totals());
                    }
                })
            })
            .collect();
        let mut sum = driver::Totals::default();
        for worker in workers {
            sum.add(&worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        sum
    });
    println!("{seeds} seeds: {totals:?}");
    // A search that no longer reaches what it looks for would pass for ever.
    assert!(
        totals.promoted > seeds / 20 && totals.rolled_back > seeds / 20 && totals.crashes > seeds / 2,
        "{totals:?}"
    );
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 2, 3] {
        assert_eq!(Driver::run(seed).trace(), Driver::run(seed).trace());
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
