//! Lists in the frames of a client that has a limit: shortened to one frame, or split into several.

use serde::Serialize;

/// What surrounds the entries in a response or an event.
pub(super) const ENVELOPE_BYTES: usize = 8 * 1024;

/// As many items as fit into a line of `frame` bytes, and whether some were left out.
pub(super) fn fit<T>(
    items: impl Iterator<Item = T>,
    frame: Option<usize>,
    size: impl Fn(&T) -> usize,
) -> (Vec<T>, bool) {
    let Some(frame) = frame else { return (items.collect(), false) };
    let mut available = frame.saturating_sub(ENVELOPE_BYTES);
    let mut fitting = Vec::new();
    for item in items {
        match available.checked_sub(size(&item)) {
            Some(left) => available = left,
            None => return (fitting, true),
        }
        fitting.push(item);
    }
    (fitting, false)
}

/// Splits items into lists that fit into a line of `frame` bytes each, and counts the items that fit into none. There is at
/// least one list.
pub(super) fn split<T>(
    items: Vec<T>,
    frame: Option<usize>,
    size: impl Fn(&T) -> usize,
) -> (Vec<Vec<T>>, usize) {
    let Some(frame) = frame else { return (vec![items], 0) };
    let capacity = frame.saturating_sub(ENVELOPE_BYTES);
    let (mut lists, mut list, mut available, mut too_long) = (Vec::new(), Vec::new(), capacity, 0);
    for item in items {
        let bytes = size(&item);
        if bytes > capacity {
            too_long += 1;
            continue;
        }
        if bytes > available {
            lists.push(std::mem::take(&mut list));
            available = capacity;
        }
        available -= bytes;
        list.push(item);
    }
    lists.push(list);
    (lists, too_long)
}

/// The length of an item in a list, with its comma.
pub(super) fn encoded_bytes(item: &impl Serialize) -> usize {
    // Only types without maps are listed, which cannot fail to encode.
    serde_json::to_string(item).map_or(usize::MAX, |text| text.len() + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// ARCHITECTURE.md, invariant 27.
        #[test]
        fn every_list_of_a_split_fits_and_nothing_else_is_left_out(
            shapes in proptest::collection::vec((0_usize..3_000, "[a\"\\x01é]"), 0..40),
            frame in 16_384_usize..40_000,
        ) {
            let items: Vec<String> = shapes.iter().map(|(length, text)| text.repeat(*length)).collect();
            let (lists, too_long) = split(items.clone(), Some(frame), encoded_bytes);
            for list in &lists {
                prop_assert!(serde_json::to_string(list).unwrap().len() <= frame - ENVELOPE_BYTES + 2);
            }
            let fitting = |item: &&String| encoded_bytes(item) <= frame - ENVELOPE_BYTES;
            let expected: Vec<&String> = items.iter().filter(fitting).collect();
            prop_assert_eq!(too_long, items.len() - expected.len());
            prop_assert_eq!(lists.iter().flatten().collect::<Vec<_>>(), expected);
            let (first, was_cut) = fit(items.iter(), Some(frame), encoded_bytes);
            prop_assert!(serde_json::to_string(&first).unwrap().len() <= frame - ENVELOPE_BYTES + 2);
            prop_assert_eq!(was_cut, first.len() < items.len());
        }
    }
}
