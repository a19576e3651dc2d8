//! Cuts very long records before they are queued, so that a client cannot fill the queue with a few of them. The file
//! contains even less of a long string.

use std::borrow::Cow;

use engine::audit::{AuditOutcome, AuditRecord, Detail};

/// Records above this size are cut to about this size.
pub(super) const MAX_RECORD_BYTES: usize = 64 * 1024;
/// The maximal length of one string of such a record; the rest is counted.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// The maximal length of one list, without its last entry, which counts the rest.
const MAX_ITEMS: usize = 255;

/// Cuts a record that is larger than [`MAX_RECORD_BYTES`].
pub(super) fn shorten(record: &mut AuditRecord) {
    let budget = &mut { MAX_RECORD_BYTES };
    cut_cow(&mut record.operation, budget);
    for (_, detail) in &mut record.details {
        match detail {
            Detail::Text(text) | Detail::Shell(text) => cut(text, budget),
            Detail::Argv(texts) | Detail::List(texts) => cut_list(texts, budget),
            Detail::Number(_) | Detail::Flag(_) | Detail::Hidden { .. } => {}
        }
    }
    match &mut record.outcome {
        AuditOutcome::Done(summary) => cut_cow(summary, budget),
        AuditOutcome::Failed { message, .. } => cut(message, budget),
    }
}

fn cut(text: &mut String, budget: &mut usize) {
    let limit = MAX_TEXT_BYTES.min(*budget);
    if text.len() > limit {
        let kept = text.floor_char_boundary(limit);
        *text = format!("{}…{} bytes more", &text[..kept], text.len() - kept);
    }
    *budget = budget.saturating_sub(text.len());
}

fn cut_cow(text: &mut Cow<'static, str>, budget: &mut usize) {
    if let Cow::Owned(text) = text {
        cut(text, budget);
    }
}

fn cut_list(texts: &mut Vec<String>, budget: &mut usize) {
    let count = texts.len();
    let mut kept = 0;
    for text in texts.iter_mut().take(MAX_ITEMS) {
        if *budget == 0 {
            break;
        }
        cut(text, budget);
        kept += 1;
    }
    if kept < count {
        texts.truncate(kept);
        texts.push(format!("…{} more", count - kept));
        texts.shrink_to_fit();
    }
}
