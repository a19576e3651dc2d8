//! Server-sent events over HTTP; an event is returned only when it is complete.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};

use crate::http::{Answer, Http, bearer};

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The id for `Last-Event-ID`.
    pub id: Option<String>,
    /// The data of the event.
    pub data: String,
}

/// A stream of events.
#[derive(Debug)]
pub struct Stream {
    http: Http,
    rest: Vec<u8>,
    begun: Option<Event>,
    whole: VecDeque<Event>,
}

/// A stream, or the response that refuses it.
pub type StreamResult = Result<Stream, Answer>;

impl Stream {
    /// Opens the events of a session after the last received one.
    pub fn open(
        address: SocketAddr,
        token: Option<&str>,
        session: &str,
        last: Option<&str>,
    ) -> io::Result<StreamResult> {
        let mut http = Http::connect(address)?;
        let mut headers = bearer(token);
        headers.push("Accept: text/event-stream".to_owned());
        headers.extend(last.map(|last| format!("Last-Event-ID: {last}")));
        let target = format!("/events?session_id={session}");
        http.send(&target, &headers, None)?;
        let head = http.head()?;
        if head.status != 200 {
            let body = String::from_utf8_lossy(&http.body(&head)?).into_owned();
            return Ok(Err(Answer { head, body }));
        }
        let kind = head.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("text/event-stream"), "{head:?}");
        // The stream may be idle for long.
        http.stream().set_read_timeout(None)?;
        Ok(Ok(Stream { http, rest: Vec::new(), begun: None, whole: VecDeque::new() }))
    }

    /// Another handle of its connection, to cut it.
    pub fn handle(&self) -> TcpStream {
        self.http.stream().try_clone().expect("a descriptor")
    }

    /// The next event; `None` when the server closed the stream normally.
    pub fn event(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.whole.pop_front() {
                return Ok(Some(event));
            }
            match self.http.chunk()? {
                Some(chunk) => self.add(&chunk),
                None => return Ok(None),
            }
        }
    }

    fn add(&mut self, chunk: &[u8]) {
        let from = self.rest.len();
        self.rest.extend_from_slice(chunk);
        let Some(end) = self.rest[from..].iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.rest.split_off(from + end + 1);
        let lines = String::from_utf8(std::mem::replace(&mut self.rest, rest)).expect("lines of UTF-8");
        for line in lines.split_terminator('\n') {
            self.field(line.strip_suffix('\r').unwrap_or(line));
        }
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => {
                self.whole.extend(self.begun.take().filter(|event| !event.data.is_empty()))
            }
            "id" => self.begun.get_or_insert_default().id = Some(value.to_owned()),
            "data" => {
                let event = self.begun.get_or_insert_default();
                if !event.data.is_empty() {
                    event.data.push('\n');
                }
                event.data.push_str(value);
            }
            _comment_or_unknown => {}
        }
    }
}
