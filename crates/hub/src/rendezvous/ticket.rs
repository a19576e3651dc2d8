//! Tickets: what an executor gets for its registration, and shows once when it connects.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::ExecutorId;
use crate::auth::{Digest, Secret};
use crate::config::Limits;
use crate::store::TokenId;

/// The tickets that wait to be used.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    waiting: Mutex<HashMap<ExecutorId, VecDeque<Ticket>>>,
}

#[derive(Debug)]
struct Ticket {
    digest: Digest,
    token: TokenId,
    until: Instant,
}

impl Tickets {
    /// A new ticket for an executor, on behalf of a token.
    pub(super) fn issue(
        &self,
        executor: ExecutorId,
        token: TokenId,
        limits: &Limits,
    ) -> Result<Secret, getrandom::Error> {
        let secret = Secret::random()?;
        let ticket =
            Ticket { digest: Digest::of(secret.expose()), token, until: Instant::now() + limits.ticket };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        forget_old(&mut waiting);
        let tickets = waiting.entry(executor).or_default();
        tickets.push_back(ticket);
        while tickets.len() > limits.tickets_per_executor {
            tickets.pop_front();
        }
        Ok(secret)
    }

    /// Takes a ticket back. Tells on whose behalf it was given, if it was for this executor and is still good.
    pub(super) fn redeem(&self, executor: &ExecutorId, secret: &str) -> Option<TokenId> {
        let digest = Digest::of(secret);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        forget_old(&mut waiting);
        let tickets = waiting.get_mut(executor)?;
        let place = tickets.iter().position(|ticket| ticket.digest == digest)?;
        tickets.remove(place).map(|ticket| ticket.token)
    }
}

/// Every ticket is good for the same time, so the oldest are the first.
fn forget_old(waiting: &mut HashMap<ExecutorId, VecDeque<Ticket>>) {
    let now = Instant::now();
    waiting.retain(|_, tickets| {
        while tickets.front().is_some_and(|ticket| ticket.until <= now) {
            tickets.pop_front();
        }
        !tickets.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_good_once_for_its_executor_and_for_a_while() {
        let (tickets, limits) = (Tickets::default(), Limits::default());
        let id = |text: &str| ExecutorId::parse(text).unwrap();
        let issue = || tickets.issue(id("e"), TokenId(7), &limits).unwrap();
        let (one, two) = (issue(), issue());
        assert_eq!(tickets.redeem(&id("other"), one.expose()), None);
        assert_eq!(tickets.redeem(&id("e"), "wrong"), None);
        assert_eq!(tickets.redeem(&id("e"), one.expose()), Some(TokenId(7)));
        assert_eq!(tickets.redeem(&id("e"), one.expose()), None, "it was used");
        tokio::time::advance(limits.ticket - Duration::from_millis(1)).await;
        assert_eq!(tickets.redeem(&id("e"), two.expose()), Some(TokenId(7)));
        let late = issue();
        tokio::time::advance(limits.ticket).await;
        assert_eq!(tickets.redeem(&id("e"), late.expose()), None, "it is too late");
        let many: Vec<_> = (0..=limits.tickets_per_executor).map(|_| issue()).collect();
        assert_eq!(tickets.redeem(&id("e"), many[0].expose()), None, "it made room");
        assert!(many[1..].iter().all(|ticket| tickets.redeem(&id("e"), ticket.expose()).is_some()));
        assert!(tickets.waiting.lock().unwrap().values().all(VecDeque::is_empty));
    }
}
