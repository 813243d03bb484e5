//! Agents that have nothing to do, on a real control plane.
//!
//! Each is an application of three objects (an agent, a pack, a ConfigMap) in one repository, installed by the daemon of this
//! build. Then, for a while, nobody does anything, and what the daemon does is counted: requests from the audit log of the API
//! server, memory and CPU time from `/proc`. There is no floor: to do nothing costs nothing. The agents have no pods, so that a
//! small machine holds many. Leases are not counted, a renewal every few seconds is no work of an agent.
//!
//! Run with more agents, the same table tells how time and memory grow. The time of the first install is that of the API server,
//! which takes longer for each object the more there are; ours is the CPU time.
//!
//! `cargo bench --bench idle -- --agents=100 --seconds=60`

#[path = "common/agents.rs"]
mod agents;
#[expect(dead_code, reason = "each program uses a part of it")]
mod common;
#[expect(dead_code, reason = "each program uses a part of it")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::Duration;

use agents::Agents;
use common::{Goal, Table, application, now, option};
use support::site::Site;

fn main() {
    let (agents, seconds) = (option("agents", 100), option("seconds", 60));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(agents, seconds));
}

async fn measure(agents: u64, seconds: u64) {
    let site = Site::empty().await;
    for i in 0..agents {
        for (file, text) in application(&site.namespace, i, "as it was") {
            site.clone.write(&file, &text);
        }
    }
    site.clone.commit("all of them");
    site.clone.push();
    let watched = Agents::of(&site).await;
    let started = now();
    site.start().await;
    watched.until(agents, "all run", |agent| !agent["status"]["serviceEndpoint"].is_null()).await;
    drop(watched);
    let installed = started.elapsed();
    agents::until_looked_at(&site, agents).await;
    let process = Process::of(&site.namespace);
    let (peak, spent) = (process.kib("VmHWM"), process.cpu());
    // A restarted daemon holds what it needs and nothing of what the install needed.
    site.kill();
    let started = now();
    site.start().await;
    let ready = started.elapsed();
    agents::until_looked_at(&site, agents).await;
    let looked_at = started.elapsed();
    tokio::time::sleep(Duration::from_secs(5)).await;

    let process = Process::of(&site.namespace);
    let (mark, cpu, started) = (site.plane.audit_mark(), process.cpu(), now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (cpu, window) = (process.cpu() - cpu, started.elapsed());
    let requests = site.requests_since(mark);
    let asked = requests.iter().filter(|request| request.verb() != "watch").count();
    let writes = requests.iter().filter(|request| request.is_write()).count();
    let mib = |kib: f64| kib / 1024.0;

    let mut table = Table::default();
    table.row("agents", agents as f64, None, "", Goal::Told);
    table.row("window", window.as_secs_f64(), None, "s", Goal::Told);
    table.row("writes", writes as f64, None, "", Goal::AtMost(0.0));
    table.row("requests but watches", asked as f64, None, "", Goal::AtMost(0.0));
    table.row("RSS", mib(process.kib("VmRSS")), None, "MiB", Goal::AtMost(200.0));
    table.row("RSS at most while all were installed", mib(peak), None, "MiB", Goal::Told);
    table.row("CPU, of one core", 100.0 * cpu.as_secs_f64() / window.as_secs_f64(), None, "%", Goal::AtMost(1.0));
    table.row("first install", installed.as_secs_f64(), None, "s", Goal::Told);
    table.row(
        "the same: CPU of the daemon, of each agent",
        1e3 * spent.as_secs_f64() / agents as f64,
        None,
        "ms",
        Goal::Told,
    );
    table.row("restart, to ready", ready.as_secs_f64(), None, "s", Goal::Told);
    table.row("restart, until all were looked at", looked_at.as_secs_f64(), None, "s", Goal::Told);
    table.print("none: to do nothing costs nothing");
}

/// The daemon, as the kernel accounts for it.
struct Process(PathBuf);

impl Process {
    /// The one for this cluster name.
    fn of(cluster: &str) -> Self {
        let flag = format!("--cluster-name={cluster}");
        let all = std::fs::read_dir("/proc").expect("Linux").flatten().map(|entry| entry.path());
        let is_it = |folder: &PathBuf| {
            let arguments = std::fs::read(folder.join("cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).any(|argument| argument == flag.as_bytes())
        };
        Self(all.into_iter().find(is_it).expect("a daemon that runs"))
    }

    /// A line of `status`, in KiB.
    fn kib(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(self.0.join("status")).expect("it runs");
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a line of that name");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// The CPU time of all its threads until now, to a hundredth of a second.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(self.0.join("stat")).expect("it runs");
        // The name, in parentheses, may have anything in it.
        let fields: Vec<&str> = stat.rsplit(')').next().expect("after the name").split_whitespace().collect();
        let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
        Duration::from_millis(10 * (ticks(11) + ticks(12)))
    }
}
