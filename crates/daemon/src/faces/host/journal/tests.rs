//! A journal keeps its numbers, whatever ends the daemon and wherever the file is cut.

use proptest::prelude::*;
use serde_json::value::to_raw_value;

use super::*;

fn record() -> RunRecord {
    RunRecord {
        run_id: "run-1".to_owned(),
        process: "p_000000000001".to_owned(),
        is_kept: true,
        tool: "shell".to_owned(),
        cwd: "/srv".to_owned(),
        command: "make".to_owned(),
        has_terminal: true,
        is_own: true,
        started_at: "2026-01-01T00:00:00Z".to_owned(),
        boot: "boot".to_owned(),
        request_id: None,
    }
}

fn data(text: &str) -> EventContent {
    EventContent::Data { kind: "run.input", data: to_raw_value(&text).unwrap() }
}

fn output(from: u64, to: u64) -> EventContent {
    EventContent::Output(OutputRange { is_stderr: false, from, to })
}

fn append(journal: &mut RunJournal, content: EventContent) -> i64 {
    journal.append("t", vec![content.into()])
}

/// Every event as text, with its number.
fn all(journal: &RunJournal) -> Vec<(i64, String)> {
    let shown = |event: StoredEvent| match event.content {
        StoredContent::Data { data, .. } => (event.seq, data.unwrap().get().to_owned()),
        StoredContent::Output(range) => (event.seq, format!("{}..{}", range.from, range.to)),
    };
    journal.read(journal.first(), usize::MAX).unwrap().into_iter().map(shown).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Data(String),
    Output(u64),
    Input(u8),
    Ack(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => ".{0,40}".prop_map(Step::Data),
        4 => (1_u64..5000).prop_map(Step::Output),
        1 => any::<u8>().prop_map(Step::Input),
        1 => (0_i64..30).prop_map(Step::Ack),
    ]
}

fn apply(journal: &mut RunJournal, step: &Step) {
    match step {
        Step::Data(text) => drop(append(journal, data(text))),
        Step::Output(bytes) => {
            let from = journal.cursor();
            append(journal, output(from, from + bytes));
        }
        Step::Input(id) => drop(journal.remember_input(&id.to_string()).unwrap()),
        Step::Ack(seq) => {
            let seq = (*seq).min(journal.last());
            journal.acknowledge("hub", seq, &["hub".to_owned()]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_file_that_is_cut_anywhere_has_its_first_events_and_continues(
        steps in prop::collection::vec(step(), 1..40),
        place in 0.0_f64..1.0,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
        let base = journal.base_end;
        // Every event that ever was, whether acknowledged or not.
        let mut whole = Vec::new();
        for step in &steps {
            let last = journal.last();
            apply(&mut journal, step);
            whole.extend(all(&journal).into_iter().filter(|(seq, _)| *seq > last));
        }
        let cut = base + ((journal.end - base) as f64 * place) as u64;
        let file = OpenOptions::new().write(true).open(&journal.path).unwrap();
        file.set_len(cut).unwrap();
        let mut reopened = RunJournal::open(&journal.path, u64::MAX).unwrap();
        prop_assert_eq!(reopened.record(), &record());
        let found = all(&reopened);
        prop_assert_eq!(&found[..], &whole[..found.len()]);
        prop_assert_eq!(reopened.last(), found.len() as i64);
        let next = append(&mut reopened, data("after"));
        prop_assert_eq!(next, found.len() as i64 + 1);
        let again = RunJournal::open(&journal.path, u64::MAX).unwrap();
        prop_assert_eq!(all(&again).len(), found.len() + 1);
    }
}

#[test]
fn acknowledged_events_are_dropped_when_every_hub_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
    for number in 0..10 {
        append(&mut journal, data(&number.to_string()));
    }
    let hubs = ["a".to_owned(), "b".to_owned()];
    journal.acknowledge("a", 8, &hubs);
    assert_eq!(journal.first(), 1);
    journal.acknowledge("b", 5, &hubs);
    assert_eq!((journal.first(), journal.last()), (6, 10));
    journal.acknowledge("b", 3, &hubs);
    assert_eq!(journal.acknowledged_by("b"), 5, "an acknowledgement is never taken back");
    journal.append("t", vec![NewEvent { exit: Some(3), ..data("exit").into() }]);
    journal.acknowledge("a", 11, &hubs);
    journal.acknowledge("b", 11, &hubs);
    let reopened = RunJournal::open(&journal.path, u64::MAX).unwrap();
    assert_eq!((reopened.first(), reopened.last(), reopened.ended()), (12, 11, Some(3)));
    assert_eq!(reopened.acknowledged_by("a"), 11);
    assert!(std::fs::metadata(&journal.path).unwrap().len() < 1000, "only the state is left");
}

#[test]
fn beyond_its_size_the_oldest_events_are_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), 4_000).unwrap();
    for number in 0..200 {
        append(&mut journal, output(number * 10, number * 10 + 10));
    }
    assert_eq!(journal.last(), 200);
    assert!(journal.first() > 100);
    assert_eq!(journal.lost_bytes(), (journal.first() as u64 - 1) * 10);
    assert!(std::fs::metadata(&journal.path).unwrap().len() < 6_000);
    let reopened = RunJournal::open(&journal.path, 4_000).unwrap();
    assert_eq!((reopened.first(), reopened.last()), (journal.first(), 200));
    assert_eq!(reopened.lost_bytes(), journal.lost_bytes());
    assert_eq!(reopened.cursor(), 2_000);
}

#[test]
fn on_a_full_disk_events_are_lost_and_their_numbers_are_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
    append(&mut journal, output(0, 10));
    journal.file = Some(OpenOptions::new().read(true).write(true).open("/dev/full").unwrap());
    journal.path = PathBuf::from("/dev/full/none");
    assert_eq!(append(&mut journal, output(10, 30)), 2);
    assert_eq!((journal.first(), journal.last(), journal.lost_bytes()), (3, 2, 30));
    assert!(journal.remember_input("i").is_err());
}

/// The numbers and the cursor of a restarted host continue after what a full disk has lost.
#[test]
fn after_a_full_disk_the_file_continues_with_the_numbers_that_were_used() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
    append(&mut journal, output(0, 10));
    let path = journal.path.clone();
    for round in 0..2 {
        journal.file = Some(OpenOptions::new().read(true).write(true).open("/dev/full").unwrap());
        journal.path = PathBuf::from("/dev/full/none");
        let from = journal.cursor();
        let lost = NewEvent { input: Some(format!("lost-{round}")), ..output(from, from + 20).into() };
        journal.append("t", vec![lost]);
        journal.set_acknowledged("hub", journal.last() + 3, &["hub".to_owned()]);
        (journal.path, journal.file) = (path.clone(), Some(options().open(&path).unwrap()));
        append(&mut journal, output(from + 20, from + 25));
        append(&mut journal, data("after"));
        let mut reopened = RunJournal::open(&path, u64::MAX).unwrap();
        assert_eq!((reopened.first(), reopened.last()), (journal.first(), journal.last()));
        assert_eq!((reopened.cursor(), reopened.lost_bytes()), (from + 25, journal.lost_bytes()));
        assert_eq!(all(&reopened), all(&journal));
        assert!(!reopened.remember_input(&format!("lost-{round}")).unwrap());
    }
    assert_eq!((journal.last(), journal.cursor()), (13, 60));
}

#[test]
fn a_closed_journal_holds_no_file_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
    append(&mut journal, data("one"));
    journal.close();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut files = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    assert!(!files.any(|file| file == journal.path));
    assert_eq!(append(&mut journal, data("two")), 2);
    assert_eq!(all(&journal).len(), 2);
    journal.acknowledge("hub", 1, &["hub".to_owned()]);
    journal.compact().unwrap();
    assert_eq!(all(&journal), [(2, "\"two\"".to_owned())]);
    assert!(journal.file.is_none());
    assert_eq!(all(&RunJournal::open(&journal.path, u64::MAX).unwrap()), all(&journal));
}

#[test]
fn an_input_is_remembered_and_a_hub_that_is_ahead_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
    assert!(journal.remember_input("one").unwrap());
    assert!(!journal.remember_input("one").unwrap());
    append(&mut journal, data("x"));
    journal.set_acknowledged("hub", 7, &["hub".to_owned()]);
    assert_eq!(append(&mut journal, data("y")), 8);
    let mut reopened = RunJournal::open(&journal.path, u64::MAX).unwrap();
    assert!(!reopened.remember_input("one").unwrap());
    assert_eq!(all(&reopened), [(8, "\"y\"".to_owned())]);
}

#[test]
fn an_acknowledgement_of_events_that_cannot_exist_changes_no_number() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
    append(&mut journal, data("one"));
    let hubs = ["hub".to_owned(), "other".to_owned()];
    for seq in [1_000_002, 1 << 52, 1 << 60, i64::MAX] {
        journal.set_acknowledged("hub", seq, &hubs);
        assert_eq!((journal.acknowledged_by("hub"), journal.last()), (0, 1), "{seq}");
    }
    for seq in [9, 1 << 60, i64::MAX] {
        journal.acknowledge("hub", seq, &hubs);
        assert_eq!((journal.acknowledged_by("hub"), journal.last()), (1, 1), "{seq}");
    }
    assert_eq!(append(&mut journal, data("two")), 2);
    let reopened = RunJournal::open(&journal.path, u64::MAX).unwrap();
    assert_eq!((all(&reopened).len(), reopened.acknowledged_by("hub")), (2, 1));
}

/// A prompt and its request are one write, and a restarted host knows both.
#[test]
fn the_prompt_of_a_run_is_stored_with_its_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = RunJournal::create(dir.path(), record(), u64::MAX).unwrap();
    let shown = |answered_at: Option<u64>| {
        let request_id = answered_at.is_none().then(|| "q".to_owned());
        StoredPrompt {
            identity: "go?".to_owned(),
            takes_keys: true,
            answered_at,
            request_id,
            expires_at_ms: None,
        }
    };
    let change = |prompt| NewEvent { prompt: Some(prompt), ..data("prompt").into() };
    let events = vec![data("request").into(), change(PromptChange::Shown(shown(None)))];
    assert_eq!(journal.append("t", events), 2);
    let mut reopened = RunJournal::open(&journal.path, u64::MAX).unwrap();
    assert_eq!((reopened.last(), reopened.prompt()), (2, Some(&shown(None))));
    let input = NewEvent { input: Some("q".to_owned()), ..change(PromptChange::Shown(shown(Some(9)))) };
    reopened.append("t", vec![data("decided").into(), input]);
    // Compaction keeps the state.
    reopened.acknowledge("hub", 4, &["hub".to_owned()]);
    reopened.compact().unwrap();
    let mut again = RunJournal::open(&journal.path, u64::MAX).unwrap();
    assert!(again.has_input("q") && !again.has_input("other"));
    assert_eq!((again.first(), again.prompt()), (5, Some(&shown(Some(9)))));
    again.append("t", vec![change(PromptChange::Over)]);
    assert_eq!(RunJournal::open(&journal.path, u64::MAX).unwrap().prompt(), None);
}
