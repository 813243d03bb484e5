//! Programs that end with the tests, also when the test process is killed.
//!
//! The kernel sends the parent-death signal when the *thread* that started the child ends, and the test runner
//! ends a thread after each test. So one thread that lives as long as the process starts them all.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// A running program; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `program` with `arguments`; what it prints goes to the file `log`.
    pub(crate) fn start(program: &Path, arguments: &[String], log: PathBuf) -> Self {
        let file = File::options().create(true).append(true).open(&log).expect("log file");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("log file")).stderr(file);
        Self { child: spawn(command), log }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.exit_status().is_some()
    }

    /// How it ended, if it has.
    pub(crate) fn exit_status(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    /// Sends it a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// The last lines that it printed.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended before; then there is nothing to kill.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Sends a process a signal by name, such as `TERM`.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).output().expect("kill");
    assert!(sent.status.success(), "kill: {}", String::from_utf8_lossy(&sent.stderr));
}

/// A folder under cargo's folder for test files, named `<what>-<pid>-<n>`. The test process cannot delete what a
/// static holds, so each run deletes what ended processes left behind.
pub(crate) fn scratch(what: &str) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    static SWEPT: OnceLock<()> = OnceLock::new();
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    SWEPT.get_or_init(|| {
        let left = std::fs::read_dir(root).into_iter().flatten().flatten();
        for entry in left {
            let name = entry.file_name().to_string_lossy().into_owned();
            let mut parts = name.rsplit('-').skip(1);
            let pid = parts.next().and_then(|pid| pid.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // Another run may be sweeping the same folder.
                let _swept = std::fs::remove_dir_all(entry.path());
            }
        }
    });
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = root.join(format!("{what}-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("scratch folder");
    folder
}

/// Whether the test `name` has this process for itself. If not, it is run in one of its own, and has to succeed there: for
/// what is set once for a whole process.
pub(crate) fn is_alone(name: &str) -> bool {
    const ALONE: &str = "SERIN_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("this program again");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    false
}

/// A port that was free a moment ago.
///
/// It lies below those that the system gives to outgoing connections (from 32768 on): one of these could take it between
/// now and the moment when a program listens there, and whoever is stopped and resumed finds it free again.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes side by side begin at different places.
    let start = std::process::id().wrapping_mul(997);
    for _ in 0..COUNT {
        let number = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + number % COUNT).expect("below 32 768");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Waits until something accepts connections on `port`.
pub(crate) fn wait_for_port(port: u16, program: &mut Running) {
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(!program.has_ended(), "ended before it listened:\n{}", program.last_words());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn spawn(command: Command) -> Child {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                reply.send(command.spawn()).expect("the sender waits for the reply");
            }
        });
        Mutex::new(orders)
    });
    let (reply, answer) = channel();
    let name = format!("{command:?}");
    spawner.lock().expect("never poisoned").send((command, reply)).expect("the thread never ends");
    answer.recv().expect("the thread always replies").unwrap_or_else(|error| panic!("{name}: {error}"))
}
