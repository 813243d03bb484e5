//! A second daemon beside the one of a site, and asking either.

use std::path::PathBuf;

use super::process::Running;

/// A second daemon.
pub(crate) struct Second {
    pub(crate) running: Running,
    pub(crate) port: u16,
    pub(crate) log: PathBuf,
}

impl Second {
    /// Whether it says that it leads.
    pub(crate) fn leads(&self) -> bool {
        says_that_it_leads(self.port)
    }

    /// Whether its `/readyz` answers 200.
    pub(crate) fn is_ready(&self) -> bool {
        http(self.port, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// Everything that it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Whether the daemon at `port` says that it leads.
pub(crate) fn says_that_it_leads(port: u16) -> bool {
    http(port, "/metrics").is_some_and(|metrics| metrics.lines().any(|line| line == "serin_leader 1"))
}

/// Asks a daemon's server; the whole answer.
pub(crate) fn http(port: u16, path: &str) -> Option<String> {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    Some(answer)
}
