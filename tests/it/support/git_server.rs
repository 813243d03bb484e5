//! Real git servers on loopback, over a folder of bare repositories that anyone may read and push to.
//!
//! Real ones, because what Serin relies on is what servers do: refuse a push that lost a race, run hooks, hang up.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use serin::git::Access;

use super::certificates::{self, Shown};
use super::git_clone::hermetic_git;
use super::process::{self, Running};
use super::ssh_server;

/// The biggest request body: all that a test ever pushes.
const BODY_LIMIT: usize = 256 << 20;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `git://`, served by `git daemon`.
    Git,
    /// `http://`, served by `git http-backend` (the "smart" protocol).
    Http,
    /// The same over TLS.
    Https(Shown),
    /// `ssh://`, served by `sshd`.
    Ssh,
}

/// A git server; dropping it stops it.
pub(crate) struct GitServer {
    protocol: Protocol,
    root: PathBuf,
    port: u16,
    tls: Option<(Arc<ServerConfig>, String)>,
    serving: Mutex<Option<Serving>>,
}

enum Serving {
    Daemon(Running),
    Http(Option<tokio::runtime::Runtime>),
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Self::Http(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            // Its thread may be one of another runtime, which may not block.
            runtime.shutdown_background();
        }
    }
}

impl GitServer {
    /// Starts a server without repositories.
    pub(crate) fn start(protocol: Protocol) -> Self {
        let server = Self {
            protocol,
            root: process::scratch("git-server"),
            port: process::free_port(),
            tls: match protocol {
                Protocol::Https(shown) => Some(certificates::server(shown)),
                Protocol::Git | Protocol::Http | Protocol::Ssh => None,
            },
            serving: Mutex::new(None),
        };
        server.resume();
        server
    }

    /// Creates an empty bare repository whose branch is `main`.
    pub(crate) fn create(&self, name: &str) {
        let path = self.repository(name);
        let run = |arguments: &[&str]| {
            let output = hermetic_git().args(arguments).output().expect("git");
            assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let path = path.to_str().expect("a path in UTF-8");
        run(&["init", "--quiet", "--bare", "--initial-branch=main", path]);
        run(&["-C", path, "config", "http.receivepack", "true"]);
    }

    /// The URL of the repository `name`.
    pub(crate) fn url(&self, name: &str) -> String {
        let scheme = match self.protocol {
            Protocol::Git => "git",
            Protocol::Http => "http",
            Protocol::Https(_) => "https",
            Protocol::Ssh => {
                let (user, folder) = (ssh_server::user(), self.repository(name));
                return format!("ssh://{user}@127.0.0.1:{}{}", self.port, folder.display());
            }
        };
        format!("{scheme}://127.0.0.1:{}/{name}.git", self.port)
    }

    /// What gets in.
    pub(crate) fn access(&self) -> Access {
        match self.protocol {
            Protocol::Git | Protocol::Http => Access::default(),
            Protocol::Https(_) => Access { ca_file: Some(certificates::authority_file()), ..Access::default() },
            Protocol::Ssh => ssh_server::access(self.port),
        }
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The certificate that it shows, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        self.tls.as_ref().map_or("", |(_, pem)| pem)
    }

    /// The folder of the bare repository `name`.
    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.git"))
    }

    /// Runs git in the bare repository `name` and returns what it printed: what the server itself has.
    pub(crate) fn git(&self, name: &str, arguments: &[&str]) -> String {
        let output = hermetic_git().arg("-C").arg(self.repository(name)).args(arguments).output().expect("git");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
    }

    /// Installs the shell script `script` as the hook `hook` (`pre-receive`, `update`, ...) of the repository `name`.
    pub(crate) fn install_hook(&self, name: &str, hook: &str, script: &str) {
        let path = self.repository(name).join("hooks").join(hook);
        std::fs::create_dir_all(path.parent().expect("a folder above")).expect("the folder of the hooks");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("the hook");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("an executable hook");
    }

    /// Removes a hook.
    pub(crate) fn remove_hook(&self, name: &str, hook: &str) {
        std::fs::remove_file(self.repository(name).join("hooks").join(hook)).expect("an installed hook");
    }

    /// Stops serving: connections are refused. The repositories stay.
    pub(crate) fn stop(&self) {
        drop(self.serving.lock().expect("never poisoned").take());
        // The runtime of the HTTP server closes its socket a moment later.
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            std::thread::sleep(super::LOOK_EVERY);
        }
    }

    /// Sends `git daemon` a signal: stopped by `STOP`, it takes connections and does not answer them until `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        match self.serving.lock().expect("never poisoned").as_ref() {
            Some(Serving::Daemon(daemon)) => daemon.signal(signal),
            Some(Serving::Http(_)) | None => panic!("there is no program to signal"),
        }
    }

    /// How often `git daemon` was asked for what there is to fetch.
    pub(crate) fn fetch_requests(&self) -> usize {
        let log = std::fs::read_to_string(self.root.join("git-daemon.log")).expect("a log");
        log.lines().filter(|line| line.contains("Request upload-pack")).count()
    }

    /// Serves again, on the same port.
    pub(crate) fn resume(&self) {
        let serving = match self.protocol {
            Protocol::Git => Serving::Daemon(self.start_daemon()),
            Protocol::Ssh => Serving::Daemon(ssh_server::start(self.port, &self.root)),
            Protocol::Http | Protocol::Https(_) => Serving::Http(Some(self.start_http())),
        };
        *self.serving.lock().expect("never poisoned") = Some(serving);
    }

    fn start_daemon(&self) -> Running {
        let found = hermetic_git().arg("--exec-path").output().expect("git").stdout;
        // Not `git daemon`: that starts this as a child, which would outlive it.
        let program = Path::new(String::from_utf8(found).expect("UTF-8").trim_end()).join("git-daemon");
        let arguments = [
            "--reuseaddr".into(),
            "--export-all".into(),
            "--enable=receive-pack".into(),
            "--verbose".into(),
            "--listen=127.0.0.1".into(),
            format!("--port={}", self.port),
            format!("--base-path={}", self.root.display()),
            self.root.display().to_string(),
        ];
        let mut daemon = Running::start(&program, &arguments, self.root.join("git-daemon.log"));
        process::wait_for_port(self.port, &mut daemon);
        daemon
    }

    fn start_http(&self) -> tokio::runtime::Runtime {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = std::net::TcpListener::bind(("127.0.0.1", self.port)).expect("our port");
        listener.set_nonblocking(true).expect("a socket");
        let app = axum::Router::new().fallback(serve).with_state(self.root.clone());
        let tls = self.tls.as_ref().map(|(config, _)| TlsAcceptor::from(config.clone()));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            match tls {
                Some(tls) => axum::serve(TlsListener { listener, tls }, app).await.expect("never fails"),
                None => axum::serve(listener, app).await.expect("never fails"),
            }
        });
        runtime
    }
}

/// A listener that speaks TLS with whoever knocks. Those who do not like it are the other side's affair.
pub(crate) struct TlsListener {
    pub(crate) listener: tokio::net::TcpListener,
    pub(crate) tls: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<tokio::net::TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.tls.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Answers one request by running `git http-backend` as a CGI program (RFC 3875).
async fn serve(State(root): State<PathBuf>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut command = hermetic_git();
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("REMOTE_USER", "tests");
    tokio::task::spawn_blocking(move || run_cgi(command, &body)).await.expect("the bridge does not panic")
}

fn run_cgi(mut command: Command, body: &Bytes) -> Response {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("git http-backend");
    let mut input = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // It may end without reading all of it.
            let _unread = input.write_all(body);
        });
        child.wait_with_output().expect("a child of ours")
    });
    let output = output.stdout;
    let Some(end) = output.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        response = if name.eq_ignore_ascii_case("status") {
            response.status(value.trim().split(' ').next().unwrap_or_default())
        } else {
            response.header(name, value.trim())
        };
    }
    response
        .header(header::CONNECTION, "close")
        .body(Body::from(output[end + 4..].to_vec()))
        .expect("headers that git wrote")
}
