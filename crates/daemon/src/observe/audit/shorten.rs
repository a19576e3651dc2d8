//! Shortening: a record of unusual length is cut before it waits, so that nobody can fill the queue with a few of
//! them and have others lost. What the file shows of a text is far shorter still.

use std::borrow::Cow;

use engine::audit::{AuditOutcome, AuditRecord, Detail};

/// A record up to this many bytes waits as it is; of a longer one, about as much is kept.
pub(super) const MOST_BYTES: usize = 64 * 1024;
/// What is kept of one text of a longer one; the rest is counted.
const MOST_TEXT: usize = 16 * 1024;
/// What is kept of one list, its last line excluded, which counts the rest.
const MOST_ITEMS: usize = 255;

/// Cuts a record that is longer than [`MOST_BYTES`].
pub(super) fn shorten(record: &mut AuditRecord) {
    let room = &mut { MOST_BYTES };
    cut_word(&mut record.operation, room);
    for (_, detail) in &mut record.details {
        match detail {
            Detail::Text(text) | Detail::Shell(text) => cut(text, room),
            Detail::Argv(texts) | Detail::List(texts) => cut_list(texts, room),
            Detail::Number(_) | Detail::Flag(_) | Detail::Hidden { .. } => {}
        }
    }
    match &mut record.outcome {
        AuditOutcome::Done(summary) => cut_word(summary, room),
        AuditOutcome::Failed { message, .. } => cut(message, room),
    }
}

fn cut(text: &mut String, room: &mut usize) {
    let most = MOST_TEXT.min(*room);
    if text.len() > most {
        let kept = text.floor_char_boundary(most);
        *text = format!("{}…{} bytes more", &text[..kept], text.len() - kept);
    }
    *room = room.saturating_sub(text.len());
}

fn cut_word(word: &mut Cow<'static, str>, room: &mut usize) {
    if let Cow::Owned(text) = word {
        cut(text, room);
    }
}

fn cut_list(texts: &mut Vec<String>, room: &mut usize) {
    let count = texts.len();
    let mut kept = 0;
    for text in texts.iter_mut().take(MOST_ITEMS) {
        if *room == 0 {
            break;
        }
        cut(text, room);
        kept += 1;
    }
    if kept < count {
        texts.truncate(kept);
        texts.push(format!("…{} more", count - kept));
        texts.shrink_to_fit();
    }
}
