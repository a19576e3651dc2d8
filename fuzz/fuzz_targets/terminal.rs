//! Any output makes a screen that can be reproduced and searched for a prompt, in any size.
#![no_main]

use daemon::core::terminal::{Evidence, IDLE_WHILE_POLLING, PromptDetector, TerminalModel};
use engine::process::{TerminalSize, TerminalState};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<(Vec<u8>, u8, u8)>, bool, bool)| {
    let (steps, echoes, is_canonical) = input;
    let mut model = TerminalModel::new(TerminalSize { cols: 20, rows: 8 });
    let mut detector = PromptDetector::default();
    for (bytes, cols, rows) in steps {
        model.feed(&bytes);
        model.resize(TerminalSize { cols: cols.into(), rows: rows.into() });
        let screen = model.screen();
        let mut again = TerminalModel::new(screen.size);
        again.feed(screen.text.as_bytes());
        assert_eq!(again.rows(), model.rows());
        let state = TerminalState { size: screen.size, echoes, is_canonical, wait: None };
        let evidence = Evidence { idle: IDLE_WHILE_POLLING, state: Some(state), position: 0 };
        detector.observe(&model, evidence);
    }
});
