//! Questions are asked once and settled once.

use std::path::PathBuf;
use std::sync::Mutex;

use super::*;
use crate::policy::Risk;
use crate::process::Program;

/// Somebody who remembers what they heard.
#[derive(Default)]
struct Listener {
    heard: Mutex<Vec<String>>,
    is_away: bool,
    may_not: bool,
}

impl Approver for Listener {
    fn may_answer(&self, _question: &Question) -> bool {
        !self.may_not
    }

    fn is_there(&self) -> bool {
        !self.is_away
    }

    fn hear(&self, news: &News) {
        let text = match news {
            News::Requested(approval) => approval.question.deed.summary(),
            News::Decided(_, outcome) => outcome.to_string(),
        };
        self.heard.lock().unwrap().push(text);
    }
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>, bool);

impl Ledger for Notes {
    fn opened(&self, _approval: &Approval) -> std::io::Result<()> {
        self.0.lock().unwrap().push("opened".to_owned());
        if self.1 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn settled(&self, _approval: &Approval, outcome: &Outcome) {
        self.0.lock().unwrap().push(outcome.to_string());
    }

    fn granted(&self, grant: &Grant) {
        self.0.lock().unwrap().push(format!("{:?}", grant.holder));
    }

    fn earlier(&self, id: &str) -> Option<Outcome> {
        (id == "a_old").then_some(Outcome::Abandoned)
    }
}

const WITHIN: Duration = Duration::from_secs(60);

fn question(line: &str, mark: Option<u64>) -> Question {
    let asker =
        Asker { caller: "token:ci".into(), client: "test".into(), face: "rexd", session: "s_1".into() };
    Question {
        asker,
        operation: "exec.start",
        deed: Deed::Run {
            program: Program::Argv(line.split(' ').map(str::to_owned).collect()),
            cwd: PathBuf::from("/srv"),
            env: Vec::new(),
            input: Input::default(),
            has_terminal: false,
            is_detached: false,
        },
        whole: String::new(),
        rule: "pushes".to_owned(),
        rule_mark: mark,
        reason: "somebody should look".to_owned(),
        risk: Risk::High,
    }
}

fn answer(choice: Choice, scope: Scope) -> Answer {
    Answer { choice, scope, by: "uid:1000".into() }
}

fn with_listener() -> (Approvals, Arc<Listener>, Attendance) {
    let approvals = Approvals::new(None, Vec::new());
    let listener = Arc::new(Listener::default());
    let attendance = approvals.attend(listener.clone());
    (approvals, listener, attendance)
}

#[tokio::test]
async fn an_answer_settles_a_question_and_everybody_hears_of_it() {
    let (approvals, listener, _seat) = with_listener();
    let asking = approvals.ask(question("git push", None), WITHIN).await.unwrap();
    let id = asking.approval().id.clone();
    assert_eq!(approvals.pending(|_| true).len(), 1);
    approvals.answer(&id, answer(Choice::Approve, Scope::Once), |_| true).await.unwrap();
    assert_eq!(asking.settled().await, Outcome::Answered(answer(Choice::Approve, Scope::Once)));
    assert!(approvals.pending(|_| true).is_empty());
    assert_eq!(*listener.heard.lock().unwrap(), ["run: git push", "approved by uid:1000"]);
}

#[tokio::test]
async fn of_two_answers_the_second_is_told_how_it_was_settled() {
    let (approvals, _listener, _seat) = with_listener();
    let asking = approvals.ask(question("git push", None), WITHIN).await.unwrap();
    let id = asking.approval().id.clone();
    let (one, two) = tokio::join!(
        approvals.answer(&id, answer(Choice::Deny, Scope::Once), |_| true),
        approvals.answer(&id, answer(Choice::Approve, Scope::Once), |_| true),
    );
    assert!(one.is_ok());
    assert!(matches!(
        two,
        Err(Error::AlreadySettled { outcome: Outcome::Answered(Answer { choice: Choice::Deny, .. }), .. })
    ));
    assert_eq!(asking.settled().await, Outcome::Answered(answer(Choice::Deny, Scope::Once)));
}

#[tokio::test]
async fn without_somebody_who_is_there_and_may_answer_nothing_is_asked() {
    let approvals = Approvals::new(None, Vec::new());
    let refused = approvals.ask(question("x", None), WITHIN).await;
    assert!(matches!(refused, Err(Error::NoApprover { .. })));
    let _away = approvals.attend(Arc::new(Listener { is_away: true, ..Listener::default() }));
    let _may_not = approvals.attend(Arc::new(Listener { may_not: true, ..Listener::default() }));
    let refused = approvals.ask(question("x", None), WITHIN).await;
    assert!(matches!(refused, Err(Error::NoApprover { .. })));
}

#[tokio::test(start_paused = true)]
async fn silence_settles_a_question_and_an_answer_after_it_changes_nothing() {
    let (approvals, listener, seat) = with_listener();
    let asking = approvals.ask(question("x", None), WITHIN).await.unwrap();
    let id = asking.approval().id.clone();
    // Whoever heard it left: it still waits for somebody else.
    drop(seat);
    assert_eq!(asking.settled().await, Outcome::Expired);
    let late = approvals.answer(&id, answer(Choice::Approve, Scope::Rule), |_| true).await;
    assert!(matches!(late, Err(Error::AlreadySettled { outcome: Outcome::Expired, .. })));
    assert_eq!(approvals.granted(&question("x", None)), None, "nor does it grant anything");
    assert_eq!(listener.heard.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn whoever_stops_waiting_withdraws_the_question() {
    let (approvals, listener, _seat) = with_listener();
    let asking = approvals.ask(question("x", None), WITHIN).await.unwrap();
    let id = asking.approval().id.clone();
    drop(asking);
    let late = approvals.answer(&id, answer(Choice::Approve, Scope::Once), |_| true).await;
    assert!(matches!(late, Err(Error::AlreadySettled { outcome: Outcome::Withdrawn, .. })));
    assert_eq!(listener.heard.lock().unwrap()[1], "whoever asked waits no more");
}

#[tokio::test]
async fn a_scope_grants_what_the_same_rule_asks_about_and_nothing_else() {
    for (scope, other_session) in [(Scope::Session, false), (Scope::Rule, true)] {
        let (approvals, _listener, _seat) = with_listener();
        let asking = approvals.ask(question("git push", Some(7)), WITHIN).await.unwrap();
        let id = asking.approval().id.clone();
        approvals.answer(&id, answer(Choice::Approve, scope), |_| true).await.unwrap();
        let same = question("git push --force", Some(7));
        assert_eq!(approvals.granted(&same).map(|grant| grant.choice), Some(Choice::Approve));
        assert_eq!(approvals.granted(&question("git push", Some(8))), None, "the rule has changed");
        let mut elsewhere = question("git push", Some(7));
        elsewhere.asker.session = "s_2".into();
        assert_eq!(approvals.granted(&elsewhere).is_some(), other_session, "{scope:?}");
        let mut other = question("git push", Some(7));
        other.asker.caller = "token:other".into();
        other.asker.session = "s_3".into();
        assert_eq!(approvals.granted(&other), None);
        approvals.forget("s_1");
        assert_eq!(approvals.granted(&same).is_some(), other_session, "{scope:?}");
    }
}

#[tokio::test]
async fn what_no_written_rule_asks_about_is_granted_to_the_letter() {
    let (approvals, _listener, _seat) = with_listener();
    let asking = approvals.ask(question("make test", None), WITHIN).await.unwrap();
    let id = asking.approval().id.clone();
    approvals.answer(&id, answer(Choice::Approve, Scope::Session), |_| true).await.unwrap();
    assert!(approvals.granted(&question("make test", None)).is_some());
    assert!(approvals.granted(&question("make install", None)).is_none());
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_asked() {
    let approvals = Approvals::new(Some(Arc::new(Notes(Mutex::default(), true))), Vec::new());
    let listener = Arc::new(Listener::default());
    let _seat = approvals.attend(listener.clone());
    assert!(matches!(approvals.ask(question("x", None), WITHIN).await, Err(Error::NoApprover { .. })));
    assert!(listener.heard.lock().unwrap().is_empty());
    let earlier = approvals.answer("a_old", answer(Choice::Approve, Scope::Once), |_| true).await;
    assert!(matches!(earlier, Err(Error::AlreadySettled { outcome: Outcome::Abandoned, .. })));
    let unknown = approvals.answer("a_none", answer(Choice::Approve, Scope::Once), |_| true).await;
    assert!(matches!(unknown, Err(Error::NoSuchApproval(_))));
}

#[tokio::test]
async fn only_so_many_questions_wait() {
    let (approvals, _listener, _seat) = with_listener();
    let mut asked = Vec::new();
    for _ in 0..MAX_PENDING {
        asked.push(approvals.ask(question("x", None), WITHIN).await.unwrap());
    }
    assert!(matches!(approvals.ask(question("x", None), WITHIN).await, Err(Error::LimitReached { .. })));
    asked.pop();
    assert!(approvals.ask(question("x", None), WITHIN).await.is_ok());
}
