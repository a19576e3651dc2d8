//! As much of DER as it takes to find a name in a certificate that was verified already.

pub(super) const OCTETS: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
/// The number of a tag that goes on in the next byte; nothing in a certificate has one.
const LONG_TAG: u8 = 0x1f;
/// Lengths of more bytes than this are longer than any certificate.
const MOST_LENGTH_BYTES: usize = 4;

/// Elements one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Der<'a> {
        Der(bytes)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// What is left, as it is.
    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The next element, with its tag; nothing at the end, and where something is wrong.
    pub(super) fn next(&mut self) -> Option<(u8, Der<'a>)> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        if tag & LONG_TAG == LONG_TAG {
            return None;
        }
        let (length, rest) = match first {
            0..0x80 => (usize::from(first), rest),
            _ => long_length(usize::from(first & 0x7f), rest)?,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, Der(content)))
    }

    /// The next element, which must have this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<Der<'a>> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// The next element if it has this tag; otherwise it stays.
    pub(super) fn take_if(&mut self, tag: u8) -> Option<Der<'a>> {
        match self.0.first() {
            Some(found) if *found == tag => self.take(tag),
            _ => None,
        }
    }
}

fn long_length(count: usize, rest: &[u8]) -> Option<(usize, &[u8])> {
    if count == 0 || count > MOST_LENGTH_BYTES {
        return None;
    }
    let (digits, rest) = rest.split_at_checked(count)?;
    Some((digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_taken_one_by_one_and_broken_ones_are_nothing() {
        let mut der = Der::new(&[0x04, 1, 7, 0x30, 0x81, 2, 5, 0]);
        assert_eq!(der.take_if(SEQUENCE).map(Der::bytes), None);
        assert_eq!(der.take(OCTETS).map(Der::bytes), Some(&[7][..]));
        assert_eq!(der.take(SEQUENCE).map(Der::bytes), Some(&[5, 0][..]));
        assert!(der.is_empty());
        let broken: [&[u8]; 5] = [&[], &[4], &[4, 2, 0], &[4, 0x80, 0, 0], &[0x1f, 0x81, 0]];
        assert!(broken.iter().all(|bytes| Der::new(bytes).next().is_none()));
        let endless = [0x04, 0x84, 0xff, 0xff, 0xff, 0xff, 0];
        assert!(Der::new(&endless).next().is_none());
    }
}
