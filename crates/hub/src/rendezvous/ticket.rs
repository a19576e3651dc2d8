//! Tickets: an executor receives one for its registration and redeems it when it connects.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::ExecutorId;
use crate::auth::{Secret, TokenDigest};
use crate::config::Limits;
use crate::store::TokenId;

/// The tickets that are not redeemed yet.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    issued: Mutex<HashMap<ExecutorId, VecDeque<Ticket>>>,
}

#[derive(Debug)]
struct Ticket {
    digest: TokenDigest,
    token: TokenId,
    expires: Instant,
}

impl Tickets {
    /// Issues a ticket for an executor of a token.
    pub(super) fn issue(
        &self,
        executor: ExecutorId,
        token: TokenId,
        limits: &Limits,
    ) -> Result<Secret, getrandom::Error> {
        let secret = Secret::random()?;
        let ticket = Ticket {
            digest: TokenDigest::of(secret.expose()),
            token,
            expires: Instant::now() + limits.ticket,
        };
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        remove_expired(&mut issued);
        let tickets = issued.entry(executor).or_default();
        tickets.push_back(ticket);
        while tickets.len() > limits.tickets_per_executor {
            tickets.pop_front();
        }
        Ok(secret)
    }

    /// Removes a ticket. Returns its token, if the ticket was for this executor and has not expired.
    pub(super) fn redeem(&self, executor: &ExecutorId, secret: &str) -> Option<TokenId> {
        let digest = TokenDigest::of(secret);
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        remove_expired(&mut issued);
        let tickets = issued.get_mut(executor)?;
        let position = tickets.iter().position(|ticket| ticket.digest == digest)?;
        tickets.remove(position).map(|ticket| ticket.token)
    }
}

/// All tickets are valid for the same time, so the oldest come first.
fn remove_expired(issued: &mut HashMap<ExecutorId, VecDeque<Ticket>>) {
    let now = Instant::now();
    issued.retain(|_, tickets| {
        while tickets.front().is_some_and(|ticket| ticket.expires <= now) {
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
    async fn a_ticket_is_valid_once_for_its_executor_and_for_a_limited_time() {
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
        assert_eq!(tickets.redeem(&id("e"), late.expose()), None, "it has expired");
        let many: Vec<_> = (0..=limits.tickets_per_executor).map(|_| issue()).collect();
        assert_eq!(tickets.redeem(&id("e"), many[0].expose()), None, "the limit removed it");
        assert!(many[1..].iter().all(|ticket| tickets.redeem(&id("e"), ticket.expose()).is_some()));
        assert!(tickets.issued.lock().unwrap().values().all(VecDeque::is_empty));
    }
}
