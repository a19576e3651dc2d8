//! Listening sockets while they are served: one task per socket, one per connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::task::TaskTracker;

use crate::faces::rexd::{self, Arrival};
use crate::net::http::{self, Crowd, Peer, Place, Server};
use crate::net::listen::{Tls, accept, counted, peer};
use crate::observe::metrics::{RefusalReason, Transport};

/// A peer that acknowledges nothing for so long is gone.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Everything that is served over sockets.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// What serves HTTP; the unix sockets share its service.
    pub server: Arc<Server>,
    /// Everybody who is connected over the network.
    pub crowd: Arc<Crowd>,
    /// Everybody who is connected on this machine: nobody else can take their places.
    pub locals: Arc<Crowd>,
    /// The listeners and the connections.
    pub tasks: TaskTracker,
}

impl Sockets {
    /// Serves HTTP and WebSocket on `listener` until the daemon ends.
    pub fn serve_tcp(&self, listener: TcpListener, tls: Option<Tls>) {
        let this = self.clone();
        self.tasks.spawn(async move {
            let short = || this.crowd.make_room();
            loop {
                let (stream, address) = tokio::select! {
                    () = this.server.stop.cancelled() => return,
                    accepted = accept(|| listener.accept(), short) => accepted,
                };
                match this.place(&this.crowd) {
                    Some(place) => {
                        let (server, tls) = (this.server.clone(), tls.clone());
                        this.tasks.spawn(tcp(server, stream, address, place, tls));
                    }
                    None if tls.is_none() => turn_away(&stream),
                    None => {}
                }
            }
        });
    }

    /// Serves lines on `listener` until the daemon ends; then it is dropped.
    pub fn serve_unix(&self, listener: impl AsRef<UnixListener> + Send + Sync + 'static) {
        let this = self.clone();
        self.tasks.spawn(async move {
            let short = || this.locals.make_room();
            loop {
                let (stream, _unnamed) = tokio::select! {
                    () = this.server.stop.cancelled() => return,
                    accepted = accept(|| listener.as_ref().accept(), short) => accepted,
                };
                if let Some(place) = this.place(&this.locals) {
                    this.tasks.spawn(unix(this.server.clone(), stream, place));
                }
            }
        });
    }

    fn place(&self, crowd: &Arc<Crowd>) -> Option<Place> {
        let place = crowd.enter();
        if place.is_none() {
            self.server.metrics.refused(RefusalReason::Connections);
            tracing::debug!("there are too many connections for one more");
        }
        place
    }
}

async fn tcp(server: Arc<Server>, stream: TcpStream, address: SocketAddr, place: Place, tls: Option<Tls>) {
    let _counted = server.metrics.connection(Transport::Http);
    if let Err(error) = settle_in(&stream) {
        tracing::debug!(%error, "small messages may be late, and a dead peer may be noticed late");
    }
    let Some(tls) = tls else {
        let peer = Peer { address: Some(address), certificate: None, place };
        return http::serve(server, stream, peer).await;
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(server.deadlines.headers, tls.accept(stream)) => shaken,
        () = place.evicted() => return,
    };
    match shaken {
        Ok(Ok(Some(stream))) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let certificate = certificates.and_then(<[_]>::first).map(|certificate| certificate.to_vec());
            let peer = Peer { address: Some(address), certificate, place };
            return http::serve(server, Box::new(stream), peer).await;
        }
        Ok(Ok(None)) => tracing::debug!(%address, "plain text came to a TLS port"),
        Ok(Err(error)) => tracing::debug!(%address, %error, "the TLS handshake failed"),
        Err(_late) => tracing::debug!(%address, "the TLS handshake took too long"),
    }
    server.metrics.refused(RefusalReason::Tls);
}

/// Small messages go at once; a peer that is gone without a word is noticed.
fn settle_in(stream: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, DEAD_AFTER / 2)?;
    sockopt::set_tcp_keepintvl(stream, DEAD_AFTER / 6)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(DEAD_AFTER.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// Says that there is no room, if that can be said without waiting.
fn turn_away(stream: &TcpStream) {
    let words = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
    // A peer that does not take it sees the end of the connection.
    stream.try_write(words).ok();
}

async fn unix(server: Arc<Server>, stream: UnixStream, place: Place) {
    let caller = match peer(&stream) {
        Ok(caller) => caller,
        Err(refusal) => {
            server.metrics.refused(RefusalReason::Credentials);
            return server.refusals.note("unix", &refusal, None);
        }
    };
    place.known();
    let _counted = server.metrics.connection(Transport::Unix);
    let (input, output) = stream.into_split();
    let input = counted(input, &server.metrics, Transport::Unix);
    let output = counted(output, &server.metrics, Transport::Unix);
    let link = link::ndjson::link(input, output, &server.limits);
    let arrival = Arrival::new(caller, Transport::Unix);
    rexd::serve(server.service.clone(), link, arrival, server.stop.clone()).await;
}
