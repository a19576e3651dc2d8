//! Encoders of text and base64 round-trip, and an output event is always one valid line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::rexd::v1::{Encoding, Output, OutputEvent};
use wire::{base64, binary, text};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(plain) = std::str::from_utf8(bytes) {
        let mut out = Vec::new();
        text::push_json_string(&mut out, plain);
        assert_eq!(out, serde_json::to_vec(plain).expect("text is JSON"));
        // Anything may be asked to be decoded.
        drop(base64::decode(plain));
    }
    assert_eq!(base64::decode(&base64::encode(bytes)).as_deref(), Ok(bytes));
    for encoding in [Encoding::Utf8, Encoding::Base64, Encoding::Binary] {
        let event = OutputEvent {
            method: "exec.stdout",
            session_id: "s",
            process_id: "p",
            pty_id: None,
            seq: 1,
            event_id: 2,
            cursor: None,
            bytes,
        };
        let line = binary::to_text(event.encode(encoding).into());
        assert!(!line.contains(&b'\n'));
        let read: serde_json::Value = serde_json::from_slice(&line).expect("an event is JSON");
        let output: Output = serde_json::from_value(read["params"].clone()).expect("an event is output");
        let back = match output.encoding.as_str() {
            "base64" => base64::decode(&output.data).expect("what we encode is base64"),
            _ => output.data.into_bytes(),
        };
        assert_eq!(back, bytes);
    }
});
