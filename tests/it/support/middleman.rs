//! Somebody between Serin and an HTTP server: counts requests, asks for passwords, loses answers, says nothing.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It gets through, and so does its answer.
    Forward,
    /// It gets through; the answer does not.
    LoseAnswer,
    /// The server does not see it; this is the answer's first line.
    Answer(&'static str),
    /// Nothing, for ever.
    Silence,
    /// An answer that never gets to its end, byte by byte.
    Trickle,
}

/// A listener that serves until the test process ends.
pub(crate) struct Middleman {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Middleman {
    /// Stands in front of `server` (host and port). `act` is asked with the head of each request.
    ///
    /// The servers of these tests close the connection after each answer, so one connection is one request.
    pub(crate) fn before(server: &str, act: impl Fn(&str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback interface");
        let port = listener.local_addr().expect("a bound socket").port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, server, act) = (seen.clone(), server.to_owned(), Arc::new(act));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (log, server, act) = (log.clone(), server.clone(), act.clone());
                // A connection that breaks is the other side's affair.
                thread::spawn(move || serve(client, &server, &*act, &log).unwrap_or(()));
            }
        });
        Self { port, seen }
    }

    /// One that accepts and never says a word, whatever the protocol.
    pub(crate) fn silent() -> Self {
        Self::before("", |_| Act::Silence)
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The first lines of the requests since the last time, without the protocol.
    pub(crate) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().expect("never poisoned"))
    }
}

fn serve(
    mut client: TcpStream,
    server: &str,
    act: &(dyn Fn(&str) -> Act + Send + Sync),
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    log.lock().expect("never poisoned").push(line);
    match act(&text) {
        Act::Silence => loop {
            thread::park();
        },
        Act::Trickle => {
            client.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\nfff0",
            )?;
            loop {
                client.write_all(b"#")?;
                thread::sleep(Duration::from_millis(50));
            }
        }
        Act::Answer(status) => {
            let challenge = "WWW-Authenticate: Basic realm=\"shop\"";
            write!(client, "HTTP/1.1 {status}\r\n{challenge}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        act => {
            let mut upstream = TcpStream::connect(server)?;
            upstream.write_all(&head)?;
            let (mut from_client, mut to_server) = (client.try_clone()?, upstream.try_clone()?);
            thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer)?;
            if act == Act::Forward {
                client.write_all(&answer)?;
            }
            client.shutdown(Shutdown::Both)
        }
    }
}
