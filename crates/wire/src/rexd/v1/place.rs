//! Where in a JSON text something stands: the member that a position belongs to.
//!
//! A decoder that fails says only how far it had read. Decoding again with bookkeeping would name the member too, but
//! needs the code of every decoder a second time.

/// The path of the member that was being read after `read` bytes of `text`, as `limits.max_output_bytes` or `argv[2]`.
pub(super) fn member_at(text: &str, read: usize) -> String {
    let mut open: Vec<Open<'_>> = Vec::new();
    let bytes = text.as_bytes();
    let mut place = 0;
    while place < read.min(bytes.len()) {
        match bytes[place] {
            // A bracket that was the last thing read belongs to the member whose value it begins or ends.
            b'{' if place + 1 < read => open.push(Open::Object { key: "", expects_key: true }),
            b'[' if place + 1 < read => open.push(Open::Array(0)),
            b'}' | b']' if place + 1 < read => {
                open.pop();
            }
            b',' if place + 1 < read => match open.last_mut() {
                Some(Open::Object { expects_key, .. }) => *expects_key = true,
                Some(Open::Array(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                let end = string_end(bytes, place + 1);
                if let Some(Open::Object { key, expects_key }) = open.last_mut()
                    && std::mem::take(expects_key)
                {
                    *key = text.get(place + 1..end).unwrap_or_default();
                }
                place = end;
            }
            _ => {}
        }
        place += 1;
    }
    name(&open)
}

enum Open<'a> {
    Object { key: &'a str, expects_key: bool },
    Array(usize),
}

/// Where the string that starts at `place` has its closing quote.
fn string_end(bytes: &[u8], mut place: usize) -> usize {
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'"' => break,
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
    place.min(bytes.len())
}

fn name(open: &[Open<'_>]) -> String {
    let mut path = String::new();
    for step in open {
        match step {
            Open::Object { key: "", .. } => {}
            Open::Object { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Open::Array(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_is_named_wherever_the_reading_stopped() {
        let text = r#"{"a":1,"b":{"c\"d":[true,{"e":"x"}]},"f":2}"#;
        for (until, path) in [
            (r#"{"a":1"#, "a"),
            (r#"{"a":1,"b":{"c\"d":["#, r#"b.c\"d"#),
            (r#"{"a":1,"b":{"c\"d":[true,{"e":"x""#, r#"b.c\"d[1].e"#),
            (r#"{"a":1,"b":{"c\"d":[true,{"e":"x"}"#, r#"b.c\"d[1].e"#),
            (r#"{"a":1,"b":{"c\"d":[true,{"e":"x"}]},"f":2"#, "f"),
            ("", ""),
        ] {
            assert_eq!(member_at(text, until.len()), path, "after {until}");
        }
        assert_eq!(member_at(text, usize::MAX), "", "past the end nothing is being read");
    }
}
