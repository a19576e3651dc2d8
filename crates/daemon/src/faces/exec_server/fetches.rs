//! `http/request` within a session: whether the operator lets it, the answer, then the body in pieces.

use link::Outgoing;
use wire::exec_server::ErrorObject;
use wire::exec_server::http::HttpRequest;

use super::answer::Answer;
use super::http::{self, HttpFailure};
use super::session::Session;

impl Session {
    /// `http/request`.
    pub(super) fn fetch(&mut self, params: HttpRequest, outgoing: &Outgoing, mut answer: Answer) {
        let runtime_policy = self.service.runtime_policy.current();
        match self.confinement(&runtime_policy, None, None) {
            // Who keeps commands from the network does not want them to reach it by asking the daemon.
            Ok(Some(confinement)) if confinement.restricts_network() => {
                let error = ErrorObject::invalid_request("the operator's sandbox profile has no network");
                return self.reply(answer, Err::<(), _>(error));
            }
            Ok(_) => {}
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        }
        let (active, outgoing, cancel) = (self.fetching.clone(), outgoing.clone(), answer.cancel.clone());
        let known = runtime_policy.clone();
        self.spawn(async move {
            let fetched = tokio::select! {
                fetched = http::request(params, &known.environment, &active, answer.afford(http::LARGE)) => fetched,
                // Nobody is there to read the answer.
                () = cancel.cancelled() => return,
            };
            match fetched {
                Ok((response, streamed)) => {
                    answer.send(Ok::<_, ErrorObject>(response)).await;
                    if let Some(streamed) = streamed {
                        tokio::select! {
                            () = streamed.tell(&outgoing) => {}
                            () = cancel.cancelled() => {}
                        }
                    }
                }
                Err(HttpFailure::Params(message)) => {
                    answer.send(Err::<(), _>(ErrorObject::invalid_params(message))).await;
                }
                Err(HttpFailure::Failed(message)) => {
                    answer.send(Err::<(), _>(ErrorObject::internal(message))).await;
                }
            }
        });
    }
}
