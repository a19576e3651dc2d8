//! Any params of any method are decoded or refused with an error code of the spec.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::rexd::v1::{METHODS, codes};

fuzz_target!(|text: &str| {
    for method in METHODS {
        if let Err(error) = wire::rexd::v1::check_params(method.name, Some(text)) {
            assert_eq!(error.code, codes::INVALID_PARAMS);
            assert!(error.data.is_object());
        }
    }
});
