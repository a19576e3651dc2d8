//! HttpCarrier: a carrier over HTTP. Each message is a POST to `/rpc`; events of each session come from `GET /events`.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use serde_json::Value;

use crate::carrier::{Carrier, LineSplitter, Received};
use crate::http::{Answer, Http, bearer};
use crate::sse::Stream;

/// Methods that may take long: the next request is sent without waiting for their response.
const SLOW: [&str; 4] = ["exec.wait", "fs.grep", "fs.glob", "fs.list"];

/// An item received on any of the connections.
#[derive(Debug)]
enum CarrierItem {
    Response(io::Result<String>),
    Event(String),
    /// A stream of events broke.
    Broken(io::Error),
}

/// A client that posts each request and reads the events of every session that it opens.
#[derive(Debug)]
pub struct HttpCarrier {
    address: SocketAddr,
    token: Option<String>,
    pieces: LineSplitter,
    /// The connection for sequential requests.
    requests: Http,
    /// Responses are delivered before events, so that an event follows the response with its process.
    answers: VecDeque<String>,
    items: Receiver<CarrierItem>,
    item_sender: Sender<CarrierItem>,
    /// The connections for events.
    event_streams: Vec<TcpStream>,
    is_over: bool,
}

impl HttpCarrier {
    /// Connects to an address.
    pub fn connect(address: SocketAddr, token: Option<&str>) -> io::Result<HttpCarrier> {
        let (item_sender, items) = channel();
        Ok(HttpCarrier {
            address,
            token: token.map(str::to_owned),
            pieces: LineSplitter::default(),
            requests: Http::connect(address)?,
            answers: VecDeque::new(),
            items,
            item_sender,
            event_streams: Vec::new(),
            is_over: false,
        })
    }

    fn post(&mut self, message: Vec<u8>) -> io::Result<()> {
        if is_slow(&message) {
            return self.post_aside(message);
        }
        let headers = bearer(self.token.as_deref());
        let answer = self.requests.ask("/rpc", &headers, Some(&message))?;
        if answer.head.header("connection") == Some("close") {
            self.requests = Http::connect(self.address)?;
        }
        if let Some(line) = line_of(answer) {
            for session in sessions_in(&line) {
                self.listen(&session, None)?;
            }
            self.answers.push_back(line);
        }
        Ok(())
    }

    /// Posts on a separate connection without waiting for the response; returns once the server has read the request.
    fn post_aside(&mut self, message: Vec<u8>) -> io::Result<()> {
        let mut http = Http::connect(self.address)?;
        let headers = bearer(self.token.as_deref());
        http.send("/rpc", &headers, Some(&message))?;
        let item_sender = self.item_sender.clone();
        std::thread::spawn(move || {
            let answer = http.head().and_then(|head| {
                let body = http.body(&head)?;
                Ok(String::from_utf8(body).map_err(io::Error::other)?.trim_end().to_owned())
            });
            item_sender.send(CarrierItem::Response(answer)).ok();
        });
        self.catch_up()
    }

    /// The daemon has one thread: its response to this request means that it has read all earlier ones.
    fn catch_up(&mut self) -> io::Result<()> {
        let headers = bearer(self.token.as_deref());
        for _ in 0..2 {
            self.requests.ask("/healthz", &headers, None)?;
        }
        Ok(())
    }

    /// Reads the events of a session from now on.
    pub fn listen(&mut self, session: &str, last: Option<&str>) -> io::Result<()> {
        let opened = Stream::open(self.address, self.token.as_deref(), session, last)?;
        let mut stream = opened.map_err(|answer| io::Error::other(format!("no events: {answer:?}")))?;
        self.event_streams.push(stream.handle());
        let item_sender = self.item_sender.clone();
        std::thread::spawn(move || {
            loop {
                let item = match stream.event() {
                    Ok(Some(event)) => {
                        let id = number_in(&event.data).map(|number| number.to_string());
                        assert_eq!(event.id, id, "the id of an event is its number");
                        CarrierItem::Event(event.data)
                    }
                    Ok(None) => return,
                    Err(error) => CarrierItem::Broken(error),
                };
                let is_over = matches!(item, CarrierItem::Broken(_));
                if item_sender.send(item).is_err() || is_over {
                    return;
                }
            }
        });
        Ok(())
    }
}

impl Carrier for HttpCarrier {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pieces.add(bytes).into_iter().try_for_each(|message| self.post(message))
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<Received> {
        if let Some(answer) = self.answers.pop_front() {
            return Ok(Received::Message(answer));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.items.recv_timeout(left) {
            Ok(CarrierItem::Response(answer)) => Ok(Received::Message(answer?)),
            Ok(CarrierItem::Event(line)) => Ok(Received::Message(line)),
            Ok(CarrierItem::Broken(_)) if self.is_over => Ok(Received::End),
            Ok(CarrierItem::Broken(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) if self.is_over => Ok(Received::End),
            Err(RecvTimeoutError::Timeout) => Ok(Received::Late),
            Err(RecvTimeoutError::Disconnected) => Ok(Received::End),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(message) = self.pieces.last() {
            self.post(message)?;
        }
        if !self.is_over {
            self.catch_up()?;
        }
        self.is_over = true;
        for stream in self.event_streams.drain(..) {
            // The server may have closed it already.
            stream.shutdown(Shutdown::Both).ok();
        }
        // No sender remains: read the rest of the channel.
        self.item_sender = channel().0;
        Ok(())
    }

    fn answers_after_the_end(&self) -> bool {
        false
    }
}

impl Drop for HttpCarrier {
    fn drop(&mut self) {
        for stream in &self.event_streams {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn line_of(answer: Answer) -> Option<String> {
    Some(answer.body.trim_end().to_owned()).filter(|line| !line.is_empty())
}

fn is_slow(message: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(message).unwrap_or_default();
    message["method"].as_str().is_some_and(|method| SLOW.contains(&method))
}

/// The number of an event or of a loss.
fn number_in(line: &str) -> Option<u64> {
    let message: Value = serde_json::from_str(line).expect("an event is JSON");
    message["params"]["event_id"].as_u64()
}

/// The sessions that a response or a batch opened or resumed.
fn sessions_in(line: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(line).unwrap_or_default();
    let of = |answer: &Value| {
        let result = &answer["result"];
        result["protocol"].as_str()?;
        result["session_id"].as_str().map(str::to_owned)
    };
    match &answer {
        Value::Array(answers) => answers.iter().filter_map(of).collect(),
        one => of(one).into_iter().collect(),
    }
}
