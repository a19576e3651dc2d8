//! Numbered records as output: each byte has one place, so a missing or repeated one is found wherever the stream is split.

/// The length of a record: its number in 63 digits, and a newline.
pub(crate) const RECORD: u64 = 64;

/// A shell line that writes so many batches of records, with pauses, so that faults occur in between.
pub(crate) fn writer(batches: u64, per_batch: u64, pause: &str) -> String {
    format!(
        "i=0; while [ $i -lt {batches} ]; do \
         seq -f %063.0f $((i*{per_batch})) $((i*{per_batch}+{per_batch}-1)) || exit 9; \
         sleep {pause}; i=$((i+1)); done"
    )
}

/// The bytes of a range of the stream.
pub(crate) fn bytes(from: u64, to: u64) -> Vec<u8> {
    let records = from / RECORD..to.div_ceil(RECORD);
    let all: Vec<u8> = records.flat_map(|number| format!("{number:063}\n").into_bytes()).collect();
    let start = from % RECORD;
    all[usize::try_from(start).unwrap()..usize::try_from(start + to - from).unwrap()].to_vec()
}

/// The reader of a stream of records.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The end of what was received or reported as lost.
    pub(crate) position: u64,
    /// The bytes that were reported as lost.
    pub(crate) reported: u64,
    /// The bytes that are missing without a report.
    pub(crate) lost: u64,
    /// The pieces that were received before.
    pub(crate) twice: u64,
    /// The position behind the last event, as the server counts.
    pub(crate) cursor: u64,
    /// Where pieces began that were not expected there, with the position that was.
    unexpected: Vec<(u64, u64)>,
    /// Whether an unknown number of bytes was reported as lost.
    has_gap: bool,
}

impl Records {
    /// Adds a piece of output, and the cursor behind it if the event has one.
    pub(crate) fn add(&mut self, piece: &[u8], cursor: Option<u64>) {
        if let Some(cursor) = cursor {
            if cursor <= self.cursor && !piece.is_empty() {
                self.twice += 1;
            }
            self.cursor = cursor.max(self.cursor);
        }
        let length = piece.len() as u64;
        let start = match piece == bytes(self.position, self.position + length) {
            true => self.position,
            false => place(piece).unwrap_or(self.position + 1),
        };
        if start != self.position {
            self.unexpected.push((start, self.position));
        }
        if start < self.position {
            self.twice += 1;
        } else if std::mem::take(&mut self.has_gap) {
            self.reported += start - self.position;
        } else {
            self.lost += start - self.position;
        }
        self.position = self.position.max(start + length);
    }

    /// Adds a report of lost bytes; `None` if their number is not known.
    pub(crate) fn add_loss(&mut self, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => {
                self.reported += bytes;
                self.position += bytes;
            }
            None => self.has_gap = true,
        }
    }

    /// Ends a stream that must have so many bytes.
    pub(crate) fn end(&mut self, total: u64) {
        let missing = total.saturating_sub(self.position);
        match self.has_gap {
            true => self.reported += missing,
            false => self.lost += missing,
        }
        self.twice += u64::from(self.position > total);
    }
}

/// The position of a piece that is not where it is expected, from the first complete record in it.
fn place(piece: &[u8]) -> Option<u64> {
    let newline = piece.iter().position(|byte| *byte == b'\n')?;
    let record = piece.get(newline + 1..newline + usize::try_from(RECORD).ok()?)?;
    let number: u64 = std::str::from_utf8(record).ok()?.parse().ok()?;
    (number * RECORD).checked_sub(newline as u64 + 1)
}

#[test]
fn missing_and_repeated_bytes_are_found_wherever_the_stream_is_split() {
    let mut exact = Records::default();
    exact.add(&bytes(0, 100), Some(100));
    exact.add(&bytes(100, 1000), Some(1000));
    exact.end(1000);
    assert_eq!((exact.lost, exact.twice, exact.reported), (0, 0, 0));
    let mut records = Records::default();
    records.add(&bytes(0, 100), Some(100));
    records.add(&bytes(30, 500), None);
    assert_eq!((records.lost, records.twice, records.position), (0, 1, 500));
    records.add(&bytes(570, 900), None);
    assert_eq!((records.lost, records.twice, records.position), (70, 1, 900));
    records.add_loss(Some(10));
    records.add(&bytes(910, 1000), None);
    records.add_loss(None);
    records.add(&bytes(1100, 1300), None);
    records.add(&bytes(1300, 1310), Some(100));
    assert_eq!((records.lost, records.twice, records.reported), (70, 2, 110));
    records.end(1400);
    assert_eq!((records.lost, records.position), (160, 1310));
}
