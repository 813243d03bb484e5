//! Connections that must come to the point: a request that does not arrive in time costs its connection.
//!
//! The server itself waits for ever for the rest of a request. Whoever sends it byte by byte would hold a connection with
//! each, and no probe would get one any more.

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// How long a connection may be without having been answered. Longer than the usual 10 to 15 s between two scrapes, which
/// then keep theirs.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many connections there may be; the others wait to be accepted. Half of the files that a process usually may open.
const CONNECTIONS: usize = 512;

/// Accepts so many connections at a time, and cuts those that keep it waiting.
pub(crate) struct PatientListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    patience: Duration,
}

impl PatientListener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(CONNECTIONS)), patience: PATIENCE }
    }
}

impl Listener for PatientListener {
    type Io = PatientStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let deadline = Box::pin(tokio::time::sleep(self.patience));
        (PatientStream { stream, deadline, patience: self.patience, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with a deadline, which each answer moves.
pub(crate) struct PatientStream {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    patience: Duration,
    _place: OwnedSemaphorePermit,
}

impl PatientStream {
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        self.deadline.as_mut().poll(context).is_ready()
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Before the read, so that bytes that drip in do not win time.
        if self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(_))) {
            let next = tokio::time::Instant::now() + self.patience;
            self.deadline.as_mut().reset(next);
        } else if self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn pair(patience: Duration) -> (PatientListener, TcpStream, PatientStream) {
        let mut listener = PatientListener::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        listener.patience = patience;
        let client = TcpStream::connect(Listener::local_addr(&listener).unwrap()).await.unwrap();
        let (server, _) = listener.accept().await;
        (listener, client, server)
    }

    #[tokio::test]
    async fn bytes_that_drip_in_win_no_time_and_an_answer_does() {
        let (_listener, mut client, mut server) = pair(Duration::from_millis(200)).await;
        let mut byte = [0];
        client.write_all(b"x").await.unwrap();
        assert_eq!(server.read(&mut byte).await.unwrap(), 1);
        server.write_all(b"answer").await.unwrap();
        let error = loop {
            client.write_all(b"x").await.unwrap();
            if let Err(error) = server.read(&mut byte).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn whoever_says_nothing_is_cut_off() {
        let (_listener, _client, mut server) = pair(Duration::from_millis(20)).await;
        assert_eq!(server.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_that_ends_makes_room_for_the_next() {
        let (mut listener, _client, server) = pair(PATIENCE).await;
        listener.places.forget_permits(CONNECTIONS);
        let address = Listener::local_addr(&listener).unwrap();
        let _next = TcpStream::connect(address).await.unwrap();
        let mut accepted = Box::pin(listener.accept());
        assert!(futures::poll!(accepted.as_mut()).is_pending());
        drop(server);
        accepted.await;
    }
}
