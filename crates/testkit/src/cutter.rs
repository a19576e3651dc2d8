//! Cutter: cuts the connections of a proxy repeatedly, as an unreliable network does.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::proxy::{CutKind, Proxy};

/// Cuts connections until it is dropped.
#[derive(Debug)]
pub struct Cutter {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Cuts every connection after each pause.
    pub fn cut_every(&self, pause: Duration, how: CutKind) -> Cutter {
        let (stop, stopped) = channel();
        let rules = self.rules();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                rules.cut(how);
            }
        });
        Cutter { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
