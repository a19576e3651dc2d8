//! Any bytes are parsed or refused, and an id is echoed unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::jsonrpc::{Item, Message, error_response, parse, response};

fuzz_target!(|bytes: &[u8]| match parse(bytes) {
    Ok(Message::Single(Item::Call(call))) => {
        let line = response(call.id.as_ref(), &call.method);
        if let Some(id) = &call.id {
            assert!(std::str::from_utf8(&line).is_ok_and(|line| line.contains(&id.to_string())));
            assert!(matches!(parse(&line), Ok(Message::Single(Item::Response(answer))) if answer.id == call.id));
        }
    }
    Ok(Message::Batch(parts)) => assert!(!parts.is_empty()),
    Ok(Message::Single(Item::Response(_))) => {}
    Err(fault) => assert!(parse(&error_response(fault.id.as_ref(), &fault.error)).is_ok()),
});
