//! A harness that speaks as the released ones do: one stream, a frame for each message, no acknowledgements.

use bytes::Bytes;
use link::dial::{self, Tls};
use link::websocket::Settings;
use link::{Incoming, Link};
use serde_json::{Value, json};
use testkit::daemon::PATIENCE;
use tokio::time::timeout;
use wire::exec_server::relay::{Body, Data, RelayFrame};

use super::HubWorld;

/// The largest frame that is taken.
const MOST_FRAME: usize = 16 << 20;

/// One stream.
pub(crate) struct Raw {
    link: Link,
    id: String,
    seq: u32,
    asked: u64,
}

impl Raw {
    /// Opens a stream and greets.
    pub(crate) async fn connect(world: &HubWorld, id: &str) -> (Raw, String) {
        let address = world.rendezvous(&world.addresses);
        let url = format!("{address}?role=harness&token={}", world.token);
        let socket = dial::websocket(&url, &http::HeaderMap::new(), &Tls::default()).await.unwrap();
        let limits = link::Limits { line_bytes: MOST_FRAME, ..link::Limits::default() };
        let (link, _closer) = socket.binary(&Settings::relay(), &limits);
        let mut raw = Raw { link, id: id.to_owned(), seq: 0, asked: 0 };
        raw.frame(Body::Resume { next_seq: 0 }).await;
        let answer = raw.ask("initialize", &json!({ "clientName": "raw" })).await;
        raw.say(&json!({ "method": "initialized" })).await;
        let session = answer["sessionId"].as_str().unwrap().to_owned();
        (raw, session)
    }

    /// Any frame.
    pub(crate) async fn frame(&self, body: Body) {
        self.link.outgoing.respond(RelayFrame::new(&self.id, body).encode()).await.unwrap();
    }

    async fn say(&mut self, message: &Value) {
        let payload = Bytes::from(message.to_string());
        let data = Data { seq: self.seq, segment_index: 0, segment_count: 1, payload };
        self.seq += 1;
        self.frame(Body::Data(data)).await;
    }

    /// Asks, and waits for what is answered.
    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({ "id": id, "method": method, "params": params })).await;
        loop {
            let message = self.message().await;
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    async fn message(&mut self) -> Value {
        loop {
            let incoming = timeout(PATIENCE, self.link.incoming.recv()).await.expect("a message comes");
            let Some(Incoming::Message(bytes)) = incoming else { panic!("{incoming:?}") };
            let frame = RelayFrame::decode(bytes).unwrap();
            match frame.body {
                Body::Data(data) if frame.stream_id == self.id => {
                    return serde_json::from_slice(&data.payload).unwrap();
                }
                Body::Reset { reason } => panic!("reset: {reason}"),
                _ => {}
            }
        }
    }
}
