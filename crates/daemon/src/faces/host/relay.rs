//! REXD through a hub: a second connection whose streams are sessions of hub users, so that no large read delays events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream;
use link::dial::{Backoff, DialError};
use link::mux::{self, Limits as MuxLimits};
use link::websocket::Settings;
use link::{Incoming, Limits, Link, Receiver};
use tokio::time::sleep;
use wire::hub::v1::StreamOpened;

use super::Host;
use super::uplink::{HubUrl, TokenPlace, connect};
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::net::auth::{Caller, Scopes};
use crate::observe::metrics::Transport;

/// The length of a relay frame.
const MAX_FRAME: usize = wire::limits::MAX_LINE_BYTES + 64 * 1024;
/// Frames that wait to be written to the socket.
const FRAMES: usize = 32;
/// Streams that were announced and not opened; one more is ignored.
const MAX_ANNOUNCED: usize = 1_024;

/// Serves one stream as REXD. The face that does so is not named here.
pub type ServeStream = Arc<dyn Fn(Link, ConnectionContext) -> BoxFuture<'static, ()> + Send + Sync>;

/// The users of streams that the hub has announced.
type Announced = Arc<Mutex<HashMap<String, Caller>>>;

/// Keeps the connection for REXD to a hub until the daemon ends.
pub(super) async fn run(host: Arc<Host>, hub: HubUrl, serve: ServeStream) {
    let stop = host.core().stop.clone();
    stop.run_until_cancelled(keep_connected(&host, &hub, &serve)).await;
}

async fn keep_connected(host: &Arc<Host>, hub: &HubUrl, serve: &ServeStream) {
    let mut backoff = Backoff::default();
    loop {
        match connect(hub, "/ws/host/rexd", (&host.settings.identity, None), TokenPlace::Header).await {
            Ok(socket) => {
                let limits = Limits { line_bytes: MAX_FRAME, event_slots: FRAMES, ..Limits::default() };
                let (link, _closer) = socket.mixed(&Settings::relay(), &limits);
                tracing::debug!(%hub, "connected for REXD");
                serve_streams(host, link, serve).await;
                backoff.reset();
            }
            // The other connection reports why a hub cannot be reached.
            Err(error @ DialError::Refused { .. }) => {
                tracing::info!(%hub, "no REXD through this hub: {error}")
            }
            Err(error) => tracing::debug!(%hub, %error, "no REXD through this hub"),
        }
        sleep(backoff.wait()).await;
    }
}

/// Serves the streams of one connection until it ends.
async fn serve_streams(host: &Arc<Host>, link: Link, serve: &ServeStream) {
    let tasks = &host.core().tasks;
    let announced = Announced::default();
    let link = Link { incoming: announcements(link.incoming, announced.clone()), ..link };
    let mut acceptor = mux::executor(link, MuxLimits::default(), tasks);
    while let Some((stream_id, link)) = acceptor.accept().await {
        let caller = announced.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream_id);
        match caller {
            Some(caller) => tasks.spawn(serve(link, ConnectionContext::new(caller, Transport::Ws))),
            // A stream without a user is not served: dropping the link resets the stream.
            None => tracing::warn!(%stream_id, "the hub opened a stream without a user"),
        }
    }
}

/// Takes the announcements out of the messages; the others are relay frames, which never start like JSON.
fn announcements(incoming: Receiver, announced: Announced) -> Receiver {
    Receiver::new(stream::unfold((incoming, announced), async |(mut incoming, announced)| {
        loop {
            let message = incoming.recv().await?;
            match &message {
                Incoming::Message(text) if text.first() == Some(&b'{') => announce(&announced, text),
                Incoming::Message(_) | Incoming::TooLong { .. } => {
                    return Some((message, (incoming, announced)));
                }
            }
        }
    }))
}

fn announce(announced: &Announced, text: &[u8]) {
    let Ok(opened) = serde_json::from_slice::<StreamOpened>(text) else { return };
    let mut announced = announced.lock().unwrap_or_else(PoisonError::into_inner);
    if announced.len() < MAX_ANNOUNCED {
        announced.insert(opened.stream_id, Caller::of_hub(Some(&opened.user), scopes(&opened.role)));
    }
}

/// What a role of the hub may do here: admins of a hub manage the hub, not its hosts.
fn scopes(role: &str) -> Scopes {
    match role {
        "operator" | "admin" => Scopes::DEFAULT,
        _ => Scopes { read: true, exec: false, admin: false },
    }
}
