//! Every approval is resolved exactly once.

use std::path::PathBuf;
use std::sync::Mutex;

use super::*;
use crate::policy::Risk;
use crate::process::Program;

/// An approver that records its updates.
#[derive(Default)]
struct TestApprover {
    updates: Mutex<Vec<String>>,
    is_disconnected: bool,
    is_forbidden: bool,
}

impl Approver for TestApprover {
    fn may_answer(&self, _request: &ApprovalRequest) -> bool {
        !self.is_forbidden
    }

    fn is_connected(&self) -> bool {
        !self.is_disconnected
    }

    fn notify(&self, update: &ApprovalUpdate) {
        let text = match update {
            ApprovalUpdate::Requested(approval) => approval.request.operation.summary(),
            ApprovalUpdate::Resolved(_, resolution) => resolution.to_string(),
        };
        self.updates.lock().unwrap().push(text);
    }
}

#[derive(Default)]
struct TestStore(Mutex<Vec<String>>, bool);

impl ApprovalStore for TestStore {
    fn record_request(&self, _approval: &Approval) -> std::io::Result<()> {
        self.0.lock().unwrap().push("requested".to_owned());
        if self.1 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn record_resolution(&self, _approval: &Approval, resolution: &Resolution) {
        self.0.lock().unwrap().push(resolution.to_string());
    }

    fn record_grant(&self, grant: &Grant) {
        self.0.lock().unwrap().push(format!("{:?}", grant.holder));
    }

    fn find_resolution(&self, id: &str) -> Option<Resolution> {
        (id == "a_old").then_some(Resolution::Abandoned)
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);

fn request(line: &str, rule_fingerprint: Option<u64>) -> ApprovalRequest {
    let requester =
        Requester { caller: "token:ci".into(), client: "test".into(), face: "rexd", session: "s_1".into() };
    ApprovalRequest {
        requester,
        method: "exec.start",
        client_request: None,
        operation: Operation::Run {
            program: Program::Argv(line.split(' ').map(str::to_owned).collect()),
            cwd: PathBuf::from("/srv"),
            env: Vec::new(),
            input: InputPreview::default(),
            has_terminal: false,
            is_detached: false,
        },
        fingerprint: String::new(),
        rule: "pushes".to_owned(),
        rule_fingerprint,
        reason: "pushes need a review".to_owned(),
        risk: Risk::High,
    }
}

fn answer(choice: Choice, scope: Scope) -> ApprovalAnswer {
    ApprovalAnswer { choice, scope, by: "uid:1000".into(), reason: None }
}

fn with_approver() -> (Approvals, Arc<TestApprover>, ApproverRegistration) {
    let approvals = Approvals::new(None, Vec::new());
    let approver = Arc::new(TestApprover::default());
    let registration = approvals.register_approver(approver.clone());
    (approvals, approver, registration)
}

#[tokio::test]
async fn an_answer_resolves_a_request_and_every_approver_is_notified() {
    let (approvals, approver, _registration) = with_approver();
    let handle = approvals.request(request("git push", None), TIMEOUT).await.unwrap();
    let id = handle.approval().id.clone();
    assert_eq!(approvals.pending(|_| true).len(), 1);
    approvals.answer(&id, answer(Choice::Approve, Scope::Once), |_| true).await.unwrap();
    assert_eq!(handle.resolution().await, Resolution::Answered(answer(Choice::Approve, Scope::Once)));
    assert!(approvals.pending(|_| true).is_empty());
    assert_eq!(*approver.updates.lock().unwrap(), ["run: git push", "approved by uid:1000"]);
}

/// ARCHITECTURE.md, invariant 41.
#[tokio::test]
async fn the_second_of_two_answers_fails_with_the_resolution() {
    let (approvals, _approver, _registration) = with_approver();
    let handle = approvals.request(request("git push", None), TIMEOUT).await.unwrap();
    let id = handle.approval().id.clone();
    let (one, two) = tokio::join!(
        approvals.answer(&id, answer(Choice::Deny, Scope::Once), |_| true),
        approvals.answer(&id, answer(Choice::Approve, Scope::Once), |_| true),
    );
    assert!(one.is_ok());
    assert!(matches!(
        two,
        Err(Error::AlreadySettled {
            outcome: Resolution::Answered(ApprovalAnswer { choice: Choice::Deny, .. }),
            ..
        })
    ));
    assert_eq!(handle.resolution().await, Resolution::Answered(answer(Choice::Deny, Scope::Once)));
}

#[tokio::test]
async fn without_a_connected_approver_that_may_answer_a_request_fails() {
    let approvals = Approvals::new(None, Vec::new());
    let refused = approvals.request(request("x", None), TIMEOUT).await;
    assert!(matches!(refused, Err(Error::NoApprover { .. })));
    let _disconnected = approvals
        .register_approver(Arc::new(TestApprover { is_disconnected: true, ..TestApprover::default() }));
    let _forbidden =
        approvals.register_approver(Arc::new(TestApprover { is_forbidden: true, ..TestApprover::default() }));
    let refused = approvals.request(request("x", None), TIMEOUT).await;
    assert!(matches!(refused, Err(Error::NoApprover { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_request_expires_and_a_later_answer_changes_nothing() {
    let (approvals, approver, registration) = with_approver();
    let handle = approvals.request(request("x", None), TIMEOUT).await.unwrap();
    let id = handle.approval().id.clone();
    // The request stays pending for other approvers.
    drop(registration);
    assert_eq!(handle.resolution().await, Resolution::Expired);
    let late = approvals.answer(&id, answer(Choice::Approve, Scope::Rule), |_| true).await;
    assert!(matches!(late, Err(Error::AlreadySettled { outcome: Resolution::Expired, .. })));
    assert_eq!(approvals.find_grant(&request("x", None)), None, "a late answer grants nothing");
    assert_eq!(approver.updates.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn dropping_the_handle_withdraws_the_request() {
    let (approvals, approver, _registration) = with_approver();
    let handle = approvals.request(request("x", None), TIMEOUT).await.unwrap();
    let id = handle.approval().id.clone();
    drop(handle);
    let late = approvals.answer(&id, answer(Choice::Approve, Scope::Once), |_| true).await;
    assert!(matches!(late, Err(Error::AlreadySettled { outcome: Resolution::Withdrawn, .. })));
    assert_eq!(approver.updates.lock().unwrap()[1], "withdrawn by the requester");
}

#[tokio::test]
async fn a_grant_applies_to_the_same_rule_and_nothing_else() {
    for (scope, other_session) in [(Scope::Session, false), (Scope::Rule, true)] {
        let (approvals, _approver, _registration) = with_approver();
        let handle = approvals.request(request("git push", Some(7)), TIMEOUT).await.unwrap();
        let id = handle.approval().id.clone();
        approvals.answer(&id, answer(Choice::Approve, scope), |_| true).await.unwrap();
        let same = request("git push --force", Some(7));
        assert_eq!(approvals.find_grant(&same).map(|grant| grant.choice), Some(Choice::Approve));
        assert_eq!(approvals.find_grant(&request("git push", Some(8))), None, "the rule has changed");
        let mut elsewhere = request("git push", Some(7));
        elsewhere.requester.session = "s_2".into();
        assert_eq!(approvals.find_grant(&elsewhere).is_some(), other_session, "{scope:?}");
        let mut other = request("git push", Some(7));
        other.requester.caller = "token:other".into();
        other.requester.session = "s_3".into();
        assert_eq!(approvals.find_grant(&other), None);
        approvals.remove_session("s_1");
        assert_eq!(approvals.find_grant(&same).is_some(), other_session, "{scope:?}");
    }
}

#[tokio::test]
async fn without_a_configured_rule_a_grant_applies_to_the_same_operation_only() {
    let (approvals, _approver, _registration) = with_approver();
    let handle = approvals.request(request("make test", None), TIMEOUT).await.unwrap();
    let id = handle.approval().id.clone();
    approvals.answer(&id, answer(Choice::Approve, Scope::Session), |_| true).await.unwrap();
    assert!(approvals.find_grant(&request("make test", None)).is_some());
    assert!(approvals.find_grant(&request("make install", None)).is_none());
}

#[tokio::test]
async fn a_request_that_cannot_be_stored_fails() {
    let approvals = Approvals::new(Some(Arc::new(TestStore(Mutex::default(), true))), Vec::new());
    let approver = Arc::new(TestApprover::default());
    let _registration = approvals.register_approver(approver.clone());
    assert!(matches!(approvals.request(request("x", None), TIMEOUT).await, Err(Error::NoApprover { .. })));
    assert!(approver.updates.lock().unwrap().is_empty());
    let earlier = approvals.answer("a_old", answer(Choice::Approve, Scope::Once), |_| true).await;
    assert!(matches!(earlier, Err(Error::AlreadySettled { outcome: Resolution::Abandoned, .. })));
    let unknown = approvals.answer("a_none", answer(Choice::Approve, Scope::Once), |_| true).await;
    assert!(matches!(unknown, Err(Error::NoSuchApproval(_))));
}

#[tokio::test]
async fn the_number_of_pending_approvals_is_limited() {
    let (approvals, _approver, _registration) = with_approver();
    let mut handles = Vec::new();
    for _ in 0..MAX_PENDING {
        handles.push(approvals.request(request("x", None), TIMEOUT).await.unwrap());
    }
    assert!(matches!(approvals.request(request("x", None), TIMEOUT).await, Err(Error::LimitReached { .. })));
    handles.pop();
    assert!(approvals.request(request("x", None), TIMEOUT).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_of_an_earlier_daemon_keeps_its_id_and_deadline() {
    let (approvals, approver, _registration) = with_approver();
    let handle = approvals.request(request("x", None), TIMEOUT).await.unwrap();
    let identity = handle.approval().identity();
    let (later, _, _registration) = with_approver();
    let again = later.request_again(request("x", None), identity.clone()).await.unwrap();
    assert_eq!(again.approval().id, handle.approval().id);
    assert_eq!(again.approval().expires_at, handle.approval().expires_at);
    later.answer(&identity.id, answer(Choice::Approve, Scope::Once), |_| true).await.unwrap();
    assert!(matches!(again.resolution().await, Resolution::Answered(_)));
    let late = ApprovalIdentity { expires_at: identity.requested_at, ..identity };
    let expired = later.request_again(request("x", None), late).await.unwrap();
    assert_eq!(expired.resolution().await, Resolution::Expired);
    drop(approver);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_does_not_make_a_request_wait_longer() {
    let (approvals, _approver, _registration) = with_approver();
    let requested_at = SystemTime::now() + Duration::from_secs(365 * 24 * 3600);
    let identity = ApprovalIdentity { id: "a_1".into(), requested_at, expires_at: requested_at + TIMEOUT };
    let handle = approvals.request_again(request("x", None), identity).await.unwrap();
    let since = tokio::time::Instant::now();
    assert_eq!(handle.resolution().await, Resolution::Expired);
    assert!(since.elapsed() < 2 * TIMEOUT, "{:?}", since.elapsed());
}
