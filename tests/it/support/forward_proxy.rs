//! A proxy for http: `CONNECT` for https, whole addresses for http.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy that serves until the test process ends.
pub(crate) struct ForwardProxy {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl ForwardProxy {
    /// One that lets everybody through, or only those who send this `Proxy-Authorization`.
    pub(crate) fn start(authorization: Option<&'static str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback interface");
        let port = listener.local_addr().expect("a bound socket").port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = seen.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let log = log.clone();
                // A connection that breaks is the other side's affair.
                thread::spawn(move || serve(client, authorization, &log).unwrap_or(()));
            }
        });
        Self { port, seen }
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The first lines of the requests since the last time, up to the address.
    pub(crate) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().expect("never poisoned"))
    }
}

fn serve(mut client: TcpStream, authorization: Option<&str>, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    log.lock().expect("never poisoned").push(format!("{method} {target}"));
    let is_let_in = authorization.is_none_or(|wanted| {
        head.lines()
            .any(|line| line.to_ascii_lowercase().starts_with("proxy-authorization: ") && line.ends_with(wanted))
    });
    if !is_let_in {
        let answer = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"p\"\r\n\
                      Content-Length: 0\r\nConnection: close\r\n\r\n";
        return client.write_all(answer.as_bytes());
    }
    let authority = target.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let mut server = TcpStream::connect(authority)?;
    if method == "CONNECT" {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    } else {
        server.write_all(head.replacen(&format!("http://{authority}"), "", 1).as_bytes())?;
    }
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let copied = std::io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write).and(copied)
    });
    std::io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Both)
}
