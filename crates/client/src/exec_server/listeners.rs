//! The subscribers of notifications that belong to no process.

use bytes::Bytes;

use super::error::{ExecServerError, MissedCause};
use super::handle::Notification;
use crate::queue;

/// The queue of one subscriber.
pub(super) type NotificationSender = queue::Sender<Result<Notification, ExecServerError>>;

/// All subscribers of one connection.
#[derive(Debug, Default)]
pub(super) struct NotificationListeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    queue: NotificationSender,
    /// Whether the last entry of the queue reports missing notifications.
    has_gap: bool,
}

impl NotificationListeners {
    pub(super) fn add(&mut self, queue: NotificationSender) {
        self.0.push(Listener { queue, has_gap: false });
    }

    /// Whether the connection must not be read until a slow subscriber has caught up. Pending requests keep it being
    /// read.
    pub(super) fn is_stalled(&self, is_idle: bool) -> bool {
        is_idle && self.0.iter().any(|listener| listener.queue.is_full())
    }

    /// Publishes a notification, or reports it as missing to subscribers over their limit.
    pub(super) fn publish(&mut self, method: &str, params: &Bytes) {
        self.0.retain(|listener| !listener.queue.is_closed());
        for listener in &mut self.0 {
            if listener.queue.is_over_limit() {
                listener.report_missed(MissedCause::SlowReader);
                continue;
            }
            listener.has_gap = false;
            let notification = Notification { method: method.to_owned(), params: params.clone() };
            listener.queue.push(Ok(notification), params.len());
        }
    }

    /// Reports to every subscriber that notifications may be missing.
    pub(super) fn report_missed(&mut self, cause: MissedCause) {
        self.0.iter_mut().for_each(|listener| listener.report_missed(cause));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Listener {
    fn report_missed(&mut self, cause: MissedCause) {
        if !std::mem::replace(&mut self.has_gap, true) {
            self.queue.push(Err(ExecServerError::Missed(cause)), 0);
        }
    }
}
