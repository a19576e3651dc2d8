//! A push service and webhook server on loopback: keeps what it receives, and decrypts as a browser does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};

use base64_simd::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};
use testkit::daemon::PATIENCE;
use web_push_native::p256::SecretKey;
use web_push_native::{Auth, decrypt};

/// A received request.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) path: String,
    /// Complete lines, names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Delivered {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A server that accepts everything, with the next of these statuses or else 201.
pub(crate) struct PushService {
    pub(crate) address: SocketAddr,
    received: Receiver<Delivered>,
    statuses: Sender<u16>,
}

impl PushService {
    pub(crate) fn start() -> PushService {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        let (statuses, next) = channel::<u16>();
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let Some(delivered) = read(&mut reader) else { continue };
                let status = next.try_recv().unwrap_or(201);
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                // Before the response, so that a test which has seen its effect finds the request.
                if sender.send(delivered).is_err() {
                    return;
                }
                reader.get_mut().write_all(answer.as_bytes()).ok();
            }
        });
        PushService { address, received, statuses }
    }

    /// Answers the next request with this status.
    pub(crate) fn answer_next(&self, status: u16) {
        self.statuses.send(status).unwrap();
    }

    pub(crate) fn next(&self) -> Delivered {
        self.received.recv_timeout(2 * PATIENCE).expect("a request")
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.received.try_recv().is_err()
    }
}

fn read(reader: &mut BufReader<std::net::TcpStream>) -> Option<Delivered> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Delivered { path, headers, body })
}

/// The keys of a browser's subscription.
pub(crate) struct BrowserKeys {
    secret: SecretKey,
    auth: [u8; 16],
}

impl BrowserKeys {
    pub(crate) fn new(seed: u8) -> BrowserKeys {
        BrowserKeys { secret: SecretKey::from_slice(&[seed; 32]).unwrap(), auth: [seed; 16] }
    }

    /// What `PushSubscription.toJSON()` gives for an endpoint.
    pub(crate) fn subscription(&self, service: &PushService, path: &str) -> Value {
        let key = BASE64.encode_to_string(self.secret.public_key().to_sec1_bytes());
        json!({
            "endpoint": format!("http://{}{path}", service.address),
            "expirationTime": null,
            "keys": { "p256dh": key, "auth": BASE64.encode_to_string(self.auth) },
        })
    }

    pub(crate) fn decrypt(&self, delivered: &Delivered) -> Value {
        assert_eq!(delivered.header("content-encoding"), "aes128gcm");
        let text =
            decrypt(delivered.body.clone(), &self.secret, &Auth::clone_from_slice(&self.auth)).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}
