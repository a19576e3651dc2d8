//! PendingQuestions: calls of MCP 2026-07-28 that wait for the answer of a person. The request that asks has ended; the
//! repeated request with the answer continues the same call.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use link::listen::Secret;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, ElicitResult, InputRequest, InputRequests, InputRequiredResult};
use serde::Deserialize as _;

use super::call::RunningCall;
use super::elicit;
use crate::tools::approval_queue::ClaimedApproval;

/// Questions of a caller that wait for an answer; beyond it, the oldest is denied.
const MAX_QUESTIONS: usize = 64;

/// The key of the question in a result, and of its answer.
const KEY: &str = "approval";

/// The calls of one caller that wait for an answer.
#[derive(Default)]
pub(super) struct PendingQuestions(Mutex<VecDeque<PendingQuestion>>);

/// A call that waits for an answer. Its state is a secret that only its caller has received.
struct PendingQuestion {
    state: Secret,
    running: RunningCall,
    question: ClaimedApproval,
    asked: Instant,
}

/// What a repeated request leads to.
pub(super) enum Repeated {
    /// The call continues.
    Continues(RunningCall),
    /// The answer is missing: the question is asked again.
    AsksAgain(InputRequiredResult),
}

impl PendingQuestions {
    /// Stores a call, and returns the question to its client.
    pub(super) fn ask(
        &self,
        running: RunningCall,
        question: ClaimedApproval,
    ) -> Result<InputRequiredResult, ErrorData> {
        let state = Secret::random()
            .map_err(|error| ErrorData::internal_error(format!("no random numbers: {error}"), None))?;
        let pending = PendingQuestion { state, running, question, asked: Instant::now() };
        let result = pending.result();
        let oldest = {
            let mut all = self.all();
            all.push_back(pending);
            if all.len() > MAX_QUESTIONS { all.pop_front() } else { None }
        };
        if let Some(PendingQuestion { running, question, .. }) = oldest {
            running.abandon(question);
        }
        Ok(result)
    }

    /// Takes the call that a repeated request belongs to, and sends the decision.
    pub(super) async fn answer(
        &self,
        state: &str,
        request: &CallToolRequestParams,
    ) -> Result<Repeated, ErrorData> {
        let given = request.input_responses.as_ref().and_then(|given| given.get(KEY));
        let answer = given.map(ElicitResult::deserialize).transpose().map_err(|error| {
            ErrorData::invalid_params(format!("inputResponses.{KEY} is not an ElicitResult: {error}"), None)
        })?;
        let (pending, answer) = {
            let mut all = self.all();
            let at = position(&all, state, request)?;
            match answer {
                None => return Ok(Repeated::AsksAgain(all[at].result())),
                // Taken before anything is decided, so that a state counts once.
                Some(answer) => (all.remove(at), answer),
            }
        };
        let Some(PendingQuestion { running, question, asked, .. }) = pending else {
            return Err(ErrorData::internal_error("the question has disappeared", None));
        };
        elicit::settle(question, elicit::decision(&answer, asked.elapsed()), &running.denied_by).await;
        Ok(Repeated::Continues(running))
    }

    /// Denies all questions and ends their calls.
    pub(super) fn close(&self) {
        for PendingQuestion { running, question, .. } in self.all().drain(..) {
            running.abandon(question);
        }
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<PendingQuestion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the call that a state names; the request must repeat it.
fn position(
    all: &VecDeque<PendingQuestion>,
    state: &str,
    request: &CallToolRequestParams,
) -> Result<usize, ErrorData> {
    let state = Secret::new(state);
    let problem = match all.iter().position(|pending| pending.state == state) {
        Some(at) if all[at].running.is_of(request) => return Ok(at),
        Some(_) => {
            "requestState is of another call: the tool or its arguments have changed\nhint: repeat the call that was asked \
             about, or call the tool without requestState"
        }
        None => {
            "no question waits for this requestState: it was answered, it was dropped, or it is of another caller\nhint: call \
             the tool again without requestState"
        }
    };
    Err(ErrorData::invalid_params(problem, None))
}

impl PendingQuestion {
    fn result(&self) -> InputRequiredResult {
        let question = elicit::request(&self.question).map(InputRequest::Elicitation);
        let requests: InputRequests =
            question.map(|question| (KEY.to_owned(), question)).into_iter().collect();
        InputRequiredResult::new(Some(requests), Some(self.state.expose().to_owned()))
    }
}
