//! Sequence numbers: 32 bits on the wire, 64 bits in memory, so that they never wrap here.

/// The number on the wire.
pub(super) fn on_wire(seq: u64) -> u32 {
    u32::try_from(seq & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// The number nearest to `near` that `wire` represents; `None` if it would be before the first.
pub(super) fn nearest(wire: u32, near: u64) -> Option<u64> {
    let ahead = wire.wrapping_sub(on_wire(near));
    match ahead <= u32::MAX / 2 {
        true => near.checked_add(u64::from(ahead)),
        false => near.checked_sub(u64::from(ahead.wrapping_neg())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_again_on_both_sides_of_a_wrap() {
        let wrap = 1_u64 << 32;
        for near in [wrap - 2, wrap, wrap + 3] {
            for seq in wrap - 40..wrap + 40 {
                assert_eq!(nearest(on_wire(seq), near), Some(seq));
            }
        }
        assert_eq!(nearest(u32::MAX, 0), None);
        assert_eq!(nearest(7, 0), Some(7));
    }
}
