//! Listeners: who hears what belongs to no process, and who of them is behind.

use bytes::Bytes;

use super::error::ExecServerError;
use super::handle::Notification;
use crate::queue;

/// Where notifications go.
pub(super) type Ear = queue::Sender<Result<Notification, ExecServerError>>;

/// Everybody who listens.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    ear: Ear,
    /// Whether it has been told that something is missing, and nothing came since.
    misses: bool,
}

impl Listeners {
    pub(super) fn add(&mut self, ear: Ear) {
        self.0.push(Listener { ear, misses: false });
    }

    /// Whether to read no further until somebody has caught up. While answers are waited for it is read on.
    pub(super) fn is_stalled(&self, nobody_waits: bool) -> bool {
        nobody_waits && self.0.iter().any(|listener| listener.ear.is_full())
    }

    /// Everybody hears it, or that it is missing.
    pub(super) fn tell(&mut self, method: &str, params: &Bytes) {
        self.0.retain(|listener| !listener.ear.is_unread());
        for listener in &mut self.0 {
            if listener.ear.is_flooded() {
                listener.miss("they came while nobody took them");
                continue;
            }
            listener.misses = false;
            let notification = Notification { method: method.to_owned(), params: params.clone() };
            listener.ear.push(Ok(notification), params.len());
        }
    }

    /// Everybody hears that there may have been something.
    pub(super) fn miss(&mut self, why: &'static str) {
        self.0.iter_mut().for_each(|listener| listener.miss(why));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Listener {
    fn miss(&mut self, why: &'static str) {
        if !std::mem::replace(&mut self.misses, true) {
            self.ear.push(Err(ExecServerError::Missed(why)), 0);
        }
    }
}
