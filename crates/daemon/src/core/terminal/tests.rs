//! Tests of the terminal model and of the recognition of prompts, on bytes that programs wrote.

use std::time::Duration;

use engine::process::{TerminalSize, TerminalState, TerminalWait};

use super::*;

const SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };

fn model(bytes: &[u8]) -> TerminalModel {
    let mut model = TerminalModel::new(SIZE);
    model.feed(bytes);
    model
}

/// A terminal that delivers lines to a program that reads one.
fn line_mode() -> TerminalState {
    TerminalState { size: SIZE, echoes: true, is_canonical: true, wait: Some(TerminalWait::Read) }
}

/// A terminal that delivers keys to the event loop of a full-screen program.
fn key_mode() -> TerminalState {
    TerminalState { size: SIZE, echoes: false, is_canonical: false, wait: Some(TerminalWait::Poll) }
}

fn at(state: TerminalState) -> Evidence {
    Evidence { idle: IDLE_WHILE_POLLING, state: Some(state), position: 0 }
}

fn found(bytes: &[u8], state: TerminalState) -> Option<Prompt> {
    PromptDetector::default().observe(&model(bytes), at(state))
}

fn recorded(bytes: &[u8]) -> Prompt {
    let mut model = TerminalModel::new(TerminalSize { cols: 100, rows: 30 });
    model.feed(bytes);
    let prompt = PromptDetector::default().observe(&model, at(key_mode()));
    prompt.unwrap_or_else(|| panic!("no prompt on\n{}", model.rows().join("\n")))
}

fn labels(prompt: &Prompt) -> Vec<(&str, &str)> {
    prompt.options.iter().map(|option| (option.label.as_str(), option.text.as_str())).collect()
}

#[test]
fn a_screen_is_reproduced_on_an_empty_terminal() {
    let text = "plain \x1b[1;31mbold red\x1b[0m\r\n\x1b[7minverse\x1b[0m wide 漢字 e\u{301}\x1b[?1h\x1b[?2004h\x1b[5;9Hx";
    for bytes in [text.to_owned(), format!("below\x1b[?1049h{text}\x1b[?25l")] {
        let first = model(bytes.as_bytes());
        let screen = first.screen();
        let second = model(screen.text.as_bytes());
        assert_eq!(second.rows(), first.rows());
        assert_eq!(second.screen(), screen);
        let facts = |model: &TerminalModel| {
            let vt = model.vt();
            let modes =
                (vt.alternate_screen(), vt.hide_cursor(), vt.application_cursor(), vt.bracketed_paste());
            let red = vt.cell(0, 6).map(|cell| (cell.fgcolor(), cell.bold(), cell.inverse()));
            (modes, vt.cursor_position(), red, vt.cell(1, 0).map(vt100::Cell::inverse))
        };
        assert_eq!(facts(&second), facts(&first));
    }
}

#[test]
fn a_screen_is_continued_with_the_character_sets_in_use() {
    let mut first = model(b"\x1b)0\x0elqk");
    let mut second = model(first.screen().text.as_bytes());
    assert!(first.is_between_sequences());
    for model in [&mut first, &mut second] {
        model.feed(b"q\x0fq\x1b[");
        assert_eq!(model.rows()[0], "┌─┐─q");
        assert!(!model.is_between_sequences());
    }
    assert!(!model(b"\xe2\x94").is_between_sequences());
}

#[test]
fn secrets_are_typed_without_echo_by_line_or_where_one_is_asked_for() {
    let hidden = TerminalState { echoes: false, ..line_mode() };
    for (text, state, is_hidden) in [
        ("Name: ", Some(line_mode()), false),
        ("Password: ", Some(line_mode()), false),
        ("Password: ", Some(hidden), true),
        ("anything", Some(hidden), true),
        ("Passphrase: ", Some(key_mode()), true),
        ("$ ", Some(key_mode()), false),
        ("Password: ", None, true),
        ("Name: ", None, false),
    ] {
        assert_eq!(hides_input(&model(text.as_bytes()), state), is_hidden, "{text:?} {state:?}");
    }
}

#[test]
fn output_may_be_cut_anywhere() {
    let bytes = "\x1b[1;31mrot\x1b[0m 漢字\r\n\x1b[?1049h\x1b[4;4Hmitte".as_bytes();
    let whole = model(bytes);
    for cut in 0..bytes.len() {
        let mut parts = model(&bytes[..cut]);
        parts.feed(&bytes[cut..]);
        assert_eq!(parts.screen(), whole.screen(), "cut at {cut}");
    }
}

#[test]
fn a_size_is_bounded_and_a_resize_keeps_the_text() {
    let mut model = TerminalModel::new(TerminalSize { cols: 0, rows: u16::MAX });
    assert_eq!(model.size(), TerminalSize { cols: 1, rows: MAX_ROWS });
    model.resize(SIZE);
    model.feed(b"\x1b[H\x1b[Jtext");
    model.resize(TerminalSize { cols: 100, rows: 30 });
    assert_eq!((model.rows().len(), model.rows()[0].as_str()), (30, "text"));
}

#[test]
fn line_drawing_letters_are_lines_and_only_in_text() {
    let model = model(b"\x1b(0lqk\x1b[1mx\x1b]0;lqk\x07x\x1b(Blqk\x0e\x1b)0q\x0fq \x1b(0q\x1bcq");
    assert_eq!(model.rows()[0], "q");
    let model = super::tests::model(b"\x1b(0lqk\x1b[1mx\x1b]0;lqk\x07x\x1b(Blqk\x0e\x1b)0q\x0fq");
    assert_eq!(model.rows()[0], "┌─┐││lqk─q");
}

#[test]
fn queries_are_answered_and_the_answers_bounded() {
    let mut model = model(b"\x1b[3;7H\x1b[6n\x1b[c\x1b[5n");
    assert_eq!(model.take_replies(), b"\x1b[3;7R\x1b[?62;22c\x1b[0n");
    assert_eq!(model.take_replies(), b"");
    model.feed(&b"\x1b[6n".repeat(10_000));
    assert!(model.take_replies().len() <= MAX_REPLY_BYTES);
}

#[test]
fn an_endless_command_to_the_terminal_takes_no_memory_and_is_over_at_its_end() {
    let mut model = model(b"\x1b]0;");
    for _ in 0..1000 {
        model.feed(&[b'a'; 10_000]);
    }
    model.feed(b"\x07shown");
    assert_eq!(model.rows()[0], "shown");
}

/// ARCHITECTURE.md, invariant 25.
#[test]
fn no_bytes_and_no_size_make_the_model_or_the_detector_panic() {
    use proptest::prelude::*;
    let fragment = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "\u{1b}\\[[?>]?[0-9;]{0,8}[@-~]".prop_map(String::into_bytes),
        "[❯›>] ?[0-9]{0,3}[.)]? ?[a-z漢\u{301}]{0,9}\r?\n".prop_map(String::into_bytes),
        "[a-z? ]{0,9}[\\[(][yn/]{0,5}[\\])][?: ]{0,2}".prop_map(String::into_bytes),
    ];
    let steps = prop::collection::vec((fragment, 0..20u16, 0..20u16, any::<[bool; 3]>()), 0..30);
    proptest!(ProptestConfig::with_cases(300), |(steps in steps)| {
        let mut model = TerminalModel::new(TerminalSize { cols: 9, rows: 5 });
        let mut detector = PromptDetector::default();
        for (bytes, cols, rows, [resizes, echoes, is_canonical]) in steps {
            model.feed(&bytes);
            if resizes {
                model.resize(TerminalSize { cols, rows });
            }
            let state = TerminalState { size: model.size(), echoes, is_canonical, wait: None };
            detector.observe(&model, at(state));
            let screen = model.screen();
            let mut again = TerminalModel::new(screen.size);
            again.feed(screen.text.as_bytes());
        }
    });
}

#[test]
fn codex_asks_for_permission() {
    let prompt = recorded(include_bytes!("fixtures/codex.bin"));
    assert_eq!(prompt.kind, PromptKind::Permission);
    let question = "Would you like to run the following command?";
    assert!(prompt.text.starts_with(question), "{}", prompt.text);
    assert!(prompt.text.ends_with("$ touch approved.txt"), "{}", prompt.text);
    assert_eq!((prompt.approve_text.as_deref(), prompt.deny_text.as_deref()), (Some("y"), Some("\x1b")));
    assert_eq!(prompt.options.len(), 3);
}

#[test]
fn claude_code_asks_for_permission() {
    let prompt = recorded(include_bytes!("fixtures/claude.bin"));
    assert_eq!(prompt.kind, PromptKind::Permission);
    assert!(prompt.text.ends_with("touch approved.txt\nDo you want to proceed?"), "{}", prompt.text);
    assert_eq!((prompt.approve_text.as_deref(), prompt.deny_text.as_deref()), (Some("1"), Some("4")));
    assert_eq!(labels(&prompt)[3], ("No", "4"));
}

#[test]
fn opencode_asks_for_permission() {
    let prompt = recorded(include_bytes!("fixtures/opencode.bin"));
    assert_eq!(prompt.kind, PromptKind::Permission);
    assert_eq!(prompt.text, "△ Permission required\n# Shell command\n$ touch approved.txt");
    let right = "\x1b[C";
    assert_eq!(
        labels(&prompt),
        [
            ("Allow once", "\r"),
            ("Allow always", &format!("{right}\r")),
            ("Reject", &format!("{right}{right}\r"))
        ]
    );
    assert_eq!(prompt.approve_text.as_deref(), Some("\r"));
    assert_eq!(prompt.deny_text.as_deref(), Some("\x1b[C\x1b[C\r"));
}

#[test]
fn full_screen_dialogs_ask_for_permission_and_for_a_choice() {
    for (bytes, down, right) in [
        (include_bytes!("fixtures/whiptail-yesno.bin").as_slice(), "", "\x1b[C\r"),
        (include_bytes!("fixtures/dialog-yesno.bin").as_slice(), "", "\x1bOC\r"),
        (include_bytes!("fixtures/whiptail-menu.bin").as_slice(), "\x1b[B\r", ""),
        (include_bytes!("fixtures/dialog-menu.bin").as_slice(), "\x1bOB\r", ""),
    ] {
        let prompt = recorded(bytes);
        let title = prompt.text.lines().next();
        assert_eq!(title, Some("Question"), "{prompt:?}");
        if down.is_empty() {
            assert_eq!(prompt.kind, PromptKind::Permission);
            assert!(prompt.text.ends_with("Delete the directory build?"), "{}", prompt.text);
            assert_eq!(
                (prompt.approve_text.as_deref(), prompt.deny_text.as_deref()),
                (Some("\r"), Some(right))
            );
        } else {
            assert_eq!((prompt.kind, labels(&prompt)[1]), (PromptKind::Choice, ("g green", down)));
        }
    }
}

#[test]
fn questions_at_the_cursor_are_classified() {
    let hidden = TerminalState { echoes: false, ..line_mode() };
    let single = TerminalState { is_canonical: false, ..line_mode() };
    for (text, state, kind, approve) in [
        ("Continue? [y/N] ", line_mode(), Some(PromptKind::Permission), Some("y\n")),
        ("Sure (yes/no)? ", line_mode(), Some(PromptKind::Permission), Some("yes\n")),
        ("Continue? [y/N] ", single, Some(PromptKind::Permission), Some("y")),
        ("\x1b[?2004hContinue? [y/N] ", key_mode(), Some(PromptKind::Permission), Some("y\r")),
        ("Name: ", line_mode(), Some(PromptKind::Prompt), None),
        ("$ ", line_mode(), Some(PromptKind::Prompt), None),
        ("Password: ", hidden, Some(PromptKind::Prompt), None),
        ("done\r\n", line_mode(), Some(PromptKind::Unknown), None),
        ("done\r\n", key_mode(), None, None),
        ("text\r\n:", key_mode(), None, None),
        ("text\r\n\x1b[7m(END)\x1b[m", key_mode(), None, None),
        (
            "50% [=====     ]",
            TerminalState { wait: Some(TerminalWait::Elsewhere), ..line_mode() },
            None,
            None,
        ),
        (
            "overwrite (y/n)? ",
            TerminalState { wait: Some(TerminalWait::Elsewhere), ..line_mode() },
            None,
            None,
        ),
        ("overwrite (y/n)? no\r\n", TerminalState { wait: None, ..line_mode() }, None, None),
        ("building", TerminalState { wait: None, ..line_mode() }, None, None),
        ("sudo password: ", TerminalState { wait: None, ..hidden }, Some(PromptKind::Prompt), None),
        ("\x1b[?1049h\x1b[3;1Hsave? [y/n] ", key_mode(), None, None),
    ] {
        let prompt = found(text.as_bytes(), state);
        assert_eq!(prompt.as_ref().map(|prompt| prompt.kind), kind, "{text:?}");
        assert_eq!(prompt.as_ref().and_then(|prompt| prompt.approve_text.as_deref()), approve, "{text:?}");
        if let Some(prompt) = prompt {
            assert_eq!(prompt.echoes, Some(!text.to_lowercase().contains("password")), "{text:?}");
        }
    }
}

#[test]
fn menus_have_options_with_their_keys() {
    let select = "1) red\r\n2) green\r\n3) blue\r\n#? ";
    let prompt = found(select.as_bytes(), line_mode()).unwrap();
    assert_eq!((prompt.kind, labels(&prompt)[2]), (PromptKind::Choice, ("blue", "3\n")));
    let arrows = "\x1b[?25lWhich colour?\r\n  red\r\n\x1b[36m❯ green\x1b[0m\r\n  blue\r\n";
    let prompt = found(arrows.as_bytes(), key_mode()).unwrap();
    assert_eq!((prompt.kind, prompt.text.as_str()), (PromptKind::Choice, "Which colour?"));
    assert_eq!(labels(&prompt), [("red", "\x1b[A\r"), ("green", "\r"), ("blue", "\x1b[B\r")]);
    let coloured =
        "\x1b[?1049h\x1b[?25l\x1b[3;5HPick one\x1b[5;5Hred\x1b[6;5H\x1b[7mgreen\x1b[0m\x1b[7;5Hblue";
    let prompt = found(coloured.as_bytes(), key_mode()).unwrap();
    assert_eq!((prompt.kind, prompt.text.as_str()), (PromptKind::Choice, "Pick one"));
    assert_eq!(labels(&prompt), [("red", "\x1b[A\r"), ("green", "\r"), ("blue", "\x1b[B\r")]);
    let application = format!("\x1b[?1h{coloured}");
    assert_eq!(labels(&found(application.as_bytes(), key_mode()).unwrap())[0], ("red", "\x1bOA\r"));
}

#[test]
fn hints_close_behind_buttons_are_none() {
    let row = "\x1b[43mAllow once\x1b[0m   Allow always   Reject  ctrl+f fullscreen  ⇆ select  enter con";
    let text = format!("\x1b[?1049h\x1b[?25l\x1b[3;3H$ touch a\x1b[5;3H{row}");
    let prompt = found(text.as_bytes(), key_mode()).unwrap();
    assert_eq!((prompt.kind, prompt.text.as_str()), (PromptKind::Permission, "$ touch a"));
    assert_eq!(labels(&prompt).len(), 3, "{prompt:?}");
    let texts = (prompt.approve_text.as_deref(), prompt.deny_text.as_deref());
    assert_eq!(texts, (Some("\r"), Some("\x1b[C\x1b[C\r")));
}

#[test]
fn a_pause_is_needed_and_its_length_depends_on_the_evidence() {
    let model = model(b"Continue? [y/N] ");
    let poll = TerminalState { wait: Some(TerminalWait::Poll), ..line_mode() };
    for (state, idle, is_found) in [
        (line_mode(), IDLE_WHILE_READING, true),
        (line_mode(), IDLE_WHILE_READING - Duration::from_millis(1), false),
        (poll, IDLE_WHILE_POLLING - Duration::from_millis(1), false),
        (poll, IDLE_WHILE_POLLING, true),
    ] {
        let evidence = Evidence { idle, state: Some(state), position: 0 };
        let found = PromptDetector::default().observe(&model, evidence);
        assert_eq!(found.is_some(), is_found, "{state:?} {idle:?}");
    }
    let unknown = Evidence { idle: IDLE_WHILE_POLLING, state: None, position: 0 };
    let prompt = PromptDetector::default().observe(&model, unknown).unwrap();
    assert_eq!((prompt.kind, prompt.echoes), (PromptKind::Permission, None));
}

#[test]
fn a_prompt_is_reported_once_until_it_was_answered() {
    let question = b"\r\nContinue? [y/N] ";
    let mut model = model(question);
    let mut detector = PromptDetector::default();
    let evidence = |position| Evidence { position, ..at(line_mode()) };
    assert!(detector.observe(&model, evidence(20)).is_some());
    assert!(detector.observe(&model, evidence(20)).is_none());
    // A redraw, a resize, and text typed into the line.
    model.feed(b"\r\x1b[KContinue? [y/N] ");
    assert!(detector.observe(&model, evidence(40)).is_none());
    model.resize(TerminalSize { cols: 60, rows: 30 });
    assert!(detector.observe(&model, evidence(40)).is_none());
    detector.note_input(b"y", 40);
    model.feed(b"y");
    // A restart of the host, which reads the whole log again.
    let mut detector = PromptDetector::restore(detector.mark().cloned());
    assert!(detector.observe(&model, evidence(41)).is_none());
    // The answer, another line, and the same question again.
    detector.note_input(b"\n", 41);
    model.feed(b"\r\n");
    model.feed(question);
    assert!(detector.observe(&model, evidence(60)).is_some());
    assert!(detector.observe(&model, evidence(60)).is_none());
}

#[test]
fn a_menu_is_reported_once_while_its_highlight_moves_and_again_when_it_is_asked_again() {
    let menu = |marked: usize| {
        let mark = |index| if index == marked { "❯" } else { " " };
        format!("\x1b[H\x1b[J\x1b[?25lRun it?\r\n{} 1. Yes\r\n{} 2. No\r\n", mark(1), mark(2))
    };
    let mut model = model(menu(1).as_bytes());
    let mut detector = PromptDetector::default();
    let evidence = |position| Evidence { position, ..at(key_mode()) };
    let first = detector.observe(&model, evidence(10)).unwrap();
    assert_eq!((first.approve_text.as_deref(), first.deny_text.as_deref()), (Some("1"), Some("2")));
    assert!(!detector.note_input(b"\x1b[B", 10));
    model.feed(menu(2).as_bytes());
    assert!(detector.observe(&model, evidence(20)).is_none());
    assert_eq!(detector.current(&model, Some(key_mode())).unwrap().approve_text.as_deref(), Some("1"));
    assert!(detector.note_input(b"1", 20));
    assert!(detector.observe(&model, evidence(20)).is_none(), "the program has not reacted yet");
    model.feed(menu(1).as_bytes());
    assert!(detector.observe(&model, evidence(30)).is_some(), "it asks again");
    model.feed(b"\x1b[H\x1b[Jworking\r\n");
    assert_eq!(detector.current(&model, Some(key_mode())), None);
    assert!(detector.observe(&model, evidence(40)).is_none());
    model.feed(menu(1).as_bytes());
    assert!(detector.observe(&model, evidence(50)).is_some(), "another screen was between them");
}
