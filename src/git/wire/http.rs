//! Git over http and https: each thing that libgit2 says is one request, and the answer is streamed.
//!
//! Redirects are not followed, because credentials would go with them; the error says where to. Credentials are sent
//! with the first request and not only after a 401: it saves a round trip at every poll, and the address is one that
//! somebody wrote down together with them.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, LOCATION, PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::rt::{Read as HyperRead, Write as HyperWrite};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service as TowerService;

use super::super::access::Authorization;
use super::{Call, Fault, proxy, tls};
use crate::chain::Chain;

/// Git hosts tell programs from browsers by the beginning.
const AGENT: &str = concat!("git/2.0 (serin ", env!("CARGO_PKG_VERSION"), ")");

/// Git over http, for one call.
pub(super) struct Http(Arc<Mutex<Line>>);

impl Http {
    pub(super) fn new(call: Arc<Call>) -> Self {
        Self(Arc::new(Mutex::new(Line { call, open: None })))
    }
}

impl SmartSubtransport for Http {
    fn action(&self, _url: &str, service: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        Ok(Box::new(Exchange { line: Arc::clone(&self.0), service, said: Vec::new(), answer: None }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        lock(&self.0).open = None;
        Ok(())
    }
}

/// One request and its answer.
struct Exchange {
    line: Arc<Mutex<Line>>,
    service: Service,
    /// What libgit2 said so far: sent when it wants to hear the answer.
    said: Vec<u8>,
    answer: Option<Answer>,
}

struct Answer {
    body: Incoming,
    heard: Bytes,
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.said.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Exchange {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut line = lock(&self.line);
        let call = Arc::clone(&line.call);
        let answer = match &mut self.answer {
            Some(answer) => answer,
            None => {
                let said = std::mem::take(&mut self.said);
                let body = line.ask(self.service, said.into()).map_err(|fault| call.fail(fault))?;
                self.answer.insert(Answer { body, heard: Bytes::new() })
            }
        };
        while answer.heard.is_empty() {
            if call.stop.is_set() {
                return Err(call.fail(call.stopped()));
            }
            match line.hear(&mut answer.body).map_err(|fault| call.fail(fault))? {
                Some(heard) => answer.heard = heard,
                None => return Ok(0),
            }
        }
        let length = into.len().min(answer.heard.len());
        into[..length].copy_from_slice(&answer.heard.split_to(length));
        Ok(length)
    }
}

/// The way to a server.
struct Line {
    call: Arc<Call>,
    open: Option<Open>,
}

struct Open {
    target: Uri,
    authorization: Option<Authorization>,
    proxy: Option<Intercept>,
    tls: Option<TlsConnector>,
    connection: Option<SendRequest<Full<Bytes>>>,
    runtime: Runtime,
}

impl Line {
    /// Sends one request and returns the body of a good answer.
    fn ask(&mut self, service: Service, said: Bytes) -> Result<Incoming, Fault> {
        let call = &*self.call;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::new(call)?,
        };
        let connection = open.connection.take();
        let (answer, connection) = {
            let Open { runtime, .. } = &open;
            runtime.block_on(async {
                let mut connection = match connection {
                    // Only one that has nothing left to say can be used again.
                    Some(connection) if connection.is_ready() => connection,
                    _ => open.connect(call).await?,
                };
                let request = open.request(call, service, said)?;
                let answer = match timeout(call.limits.silence, connection.send_request(request)).await {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(error)) => return Err(call.unreachable(&Chain(&error).to_string())),
                    Err(_) => return Err(call.timed_out()),
                };
                Ok((answer, connection))
            })?
        };
        open.check(call, service, &answer)?;
        open.connection = Some(connection);
        self.open = Some(open);
        Ok(answer.into_body())
    }

    /// The next part of an answer; `None`: that was all.
    fn hear(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Fault> {
        let call = &*self.call;
        let Some(open) = &self.open else { return Err(call.unreachable("the connection is closed")) };
        open.runtime.block_on(async {
            loop {
                return match timeout(call.limits.silence, body.frame()).await {
                    Ok(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) if !data.is_empty() => Ok(Some(data)),
                        _ => continue,
                    },
                    Ok(Some(Err(error))) => Err(call.unreachable(&Chain(&error).to_string())),
                    Ok(None) => Ok(None),
                    Err(_) => Err(call.timed_out()),
                };
            }
        })
    }
}

impl Open {
    fn new(call: &Call) -> Result<Self, Fault> {
        let target: Uri = call
            .address
            .display()
            .parse()
            .map_err(|error| call.unreachable(&format!("this is no address that can be asked: {error}")))?;
        let access = call.address.access();
        let authorization = access.authorization().map_err(|why| call.unusable(&why))?;
        if let Some(authorization) = &authorization {
            call.address.keep_secret(&authorization.secrets);
        }
        let tls = if target.scheme_str() == Some("https") {
            let authorities = access.authorities().map_err(|why| call.unusable(&why))?;
            let config = tls::config(authorities.as_ref().map(|(pem, _)| pem.as_slice())).map_err(|why| {
                let file = authorities.as_ref().map_or_else(String::new, |(_, path)| path.display().to_string());
                call.unusable(&format!("the file of certificate authorities {file} {why}"))
            })?;
            Some(TlsConnector::from(Arc::new(config)))
        } else {
            None
        };
        let proxy = proxy::proxy_for(&access.proxy, &target).map_err(|why| call.unusable(&why))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| call.unreachable(&error.to_string()))?;
        Ok(Self { target, authorization, proxy, tls, connection: None, runtime })
    }

    async fn connect(&self, call: &Call) -> Result<SendRequest<Full<Bytes>>, Fault> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(call.limits.connect));
        connector.set_nodelay(true);
        let (host, port) = self.host_and_port();
        let target: Uri = format!("http://{host}:{port}")
            .parse()
            .map_err(|error| call.unreachable(&format!("this is no address that can be asked: {error}")))?;
        let stream = match &self.proxy {
            None => {
                tower_call(connector, target).await.map_err(|error| call.unreachable(&Chain(&error).to_string()))?
            }
            Some(through) => {
                let by = |error: &dyn std::error::Error| {
                    call.unreachable(&format!("the proxy {}: {}", proxy::name(through), Chain(error)))
                };
                if self.tls.is_none() {
                    tower_call(connector, through.uri().clone()).await.map_err(|error| by(&error))?
                } else {
                    let mut tunnel = Tunnel::new(through.uri().clone(), connector);
                    if let Some(login) = through.basic_auth() {
                        tunnel = tunnel.with_auth(login.clone());
                    }
                    let call = timeout(call.limits.connect + call.limits.silence, tower_call(tunnel, target));
                    match call.await {
                        Ok(stream) => stream.map_err(|error| by(&error))?,
                        Err(late) => return Err(by(&late)),
                    }
                }
            }
        };
        let stream = stream.into_inner();
        let Some(tls) = &self.tls else { return shake_hands(call, TokioIo::new(stream)).await };
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare)
            .map_err(|_| call.unreachable(&format!("{host} is no name that a certificate could be for")))?;
        match timeout(call.limits.silence, tls.connect(name, stream)).await {
            Ok(Ok(stream)) => shake_hands(call, TokioIo::new(stream)).await,
            Ok(Err(error)) => Err(tls_fault(call, &error, host)),
            Err(_) => Err(call.timed_out()),
        }
    }

    fn request(&self, call: &Call, service: Service, said: Bytes) -> Result<Request<Full<Bytes>>, Fault> {
        let path = self.target.path().trim_end_matches('/');
        let (program, is_list) = match service {
            Service::UploadPackLs => ("git-upload-pack", true),
            Service::UploadPack => ("git-upload-pack", false),
            Service::ReceivePackLs => ("git-receive-pack", true),
            Service::ReceivePack => ("git-receive-pack", false),
        };
        let mut uri = if is_list { format!("{path}/info/refs?service={program}") } else { format!("{path}/{program}") };
        let authority = self.target.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::builder().header(HOST, authority).header(USER_AGENT, AGENT);
        if self.tls.is_none()
            && let Some(through) = &self.proxy
        {
            uri = format!("http://{authority}{uri}");
            if let Some(login) = through.basic_auth() {
                request = request.header(PROXY_AUTHORIZATION, login.clone());
            }
        }
        if let Some(authorization) = &self.authorization {
            let mut value = HeaderValue::from_str(&authorization.header).map_err(|_| {
                call.unusable(&format!(
                    "the {} in {} has characters that no header has",
                    authorization.what, authorization.from
                ))
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request = if is_list {
            request.method("GET").header(ACCEPT, "*/*")
        } else {
            request
                .method("POST")
                .header(CONTENT_TYPE, format!("application/x-{program}-request"))
                .header(ACCEPT, format!("application/x-{program}-result"))
        };
        request
            .uri(uri)
            .body(Full::new(said))
            .map_err(|error| call.unreachable(&format!("this is no address that can be asked: {error}")))
    }

    /// Whether an answer is one of a git server that does what was asked.
    fn check(&self, call: &Call, service: Service, answer: &Response<Incoming>) -> Result<(), Fault> {
        let status = answer.status();
        if status == StatusCode::OK {
            let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("nothing");
            if kind.starts_with("application/x-git-") {
                return Ok(());
            }
            return Err(call.unreachable(&format!(
                "it answers with {kind}, which is no git; is this the address that git clone takes?"
            )));
        }
        let said = said(status);
        Err(match status.as_u16() {
            300..=399 => match answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()) {
                Some(to) => call.unreachable(&format!(
                    "it redirects to {}, and redirects are not followed; write that address",
                    redirect_target(&self.target, to)
                )),
                None => call.unreachable(&format!("http status {said}")),
            },
            407 => call.unauthorized(&format!("the proxy says {said}; write user and password into its address")),
            401 => match &self.authorization {
                None => call.unauthorized(&format!("it says {said}, and no credentials are given")),
                Some(shown) => call.unauthorized(&format!("it says {said} to the {} of {}", shown.what, shown.from)),
            },
            403 => {
                let shown = self.authorization.as_ref().map_or_else(
                    || "to somebody without credentials".to_owned(),
                    |shown| format!("to the {} of {}", shown.what, shown.from),
                );
                let may = match service {
                    Service::UploadPackLs | Service::UploadPack => "read",
                    Service::ReceivePackLs | Service::ReceivePack => "write",
                };
                call.unauthorized(&format!("it says {said} {shown}: may it {may} this repository?")).refusal()
            }
            404 | 410 => call.not_found().refusal(),
            408 | 429 => call.unreachable(&format!("http status {said}")),
            402..=499 => call.unreachable(&format!("http status {said}")).refusal(),
            _ => call.unreachable(&format!("http status {said}")),
        })
    }

    fn host_and_port(&self) -> (&str, u16) {
        let default = if self.tls.is_some() { 443 } else { 80 };
        (self.target.host().unwrap_or_default(), self.target.port_u16().unwrap_or(default))
    }
}

/// Calls a connector once.
async fn tower_call<C>(mut connector: C, target: Uri) -> Result<TokioIo<TcpStream>, C::Error>
where
    C: TowerService<Uri, Response = TokioIo<TcpStream>>,
{
    connector.call(target).await
}

async fn shake_hands<S>(call: &Call, stream: S) -> Result<SendRequest<Full<Bytes>>, Fault>
where
    S: HyperRead + HyperWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(stream).await.map_err(|error| call.unreachable(&Chain(&error).to_string()))?;
    // Its errors come to whoever waits for the answer, too.
    tokio::spawn(connection);
    Ok(sender)
}

fn tls_fault(call: &Call, error: &io::Error, host: &str) -> Fault {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(inner) => match tls::certificate_fault(inner, host) {
            Some(why) => call.untrusted(&why),
            None => call.unreachable(&format!("TLS: {inner}")),
        },
        None => call.unreachable(&format!("TLS: {}", Chain(error))),
    }
}

fn said(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// The address of a repository that a redirect of one of its parts leads to.
fn redirect_target(asked: &Uri, location: &str) -> String {
    let path = location.split(['?', '#']).next().unwrap_or_default();
    let path = ["/info/refs", "/git-upload-pack", "/git-receive-pack"]
        .iter()
        .find_map(|end| path.strip_suffix(end))
        .unwrap_or(path);
    let scheme = asked.scheme_str().unwrap_or("https");
    match path.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or_default())
        }
        None if path.starts_with("//") => format!("{scheme}:{path}"),
        None => {
            let authority = asked.authority().map_or("", |authority| authority.as_str());
            format!("{scheme}://{authority}/{}", path.trim_start_matches('/'))
        }
    }
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_told_as_the_address_to_write() {
        let asked = Uri::from_static("https://git.example/shop.git");
        for (location, told) in [
            ("https://new.example/shop.git/info/refs?service=git-upload-pack", "https://new.example/shop.git"),
            ("/team/shop.git/info/refs?service=git-upload-pack", "https://git.example/team/shop.git"),
            ("//cdn.example/shop.git/git-upload-pack", "https://cdn.example/shop.git"),
            ("https://u:secret@login.example/?next=secret", "https://login.example/"),
        ] {
            assert_eq!(redirect_target(&asked, location), told);
        }
    }
}
