//! What a row found: tables of figures and targets, written to the terminal and as Markdown.

/// Everything one row has to say.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Heading of the row.
    pub(crate) title: String,
    /// One table per kind of figure.
    pub(crate) tables: Vec<Table>,
    /// The comparisons that the row exists for.
    pub(crate) targets: Vec<Target>,
    /// Sentences a reader needs to judge the figures.
    pub(crate) notes: Vec<String>,
}

/// A table of figures.
#[derive(Debug)]
pub(crate) struct Table {
    /// Heads of the columns.
    pub(crate) head: Vec<String>,
    /// Cells by line.
    pub(crate) lines: Vec<Vec<String>>,
}

/// One comparison with what was to be reached.
#[derive(Debug)]
pub(crate) struct Target {
    /// What is compared.
    pub(crate) work: String,
    /// Our figure.
    pub(crate) ours: String,
    /// The figure it is held against, with the name of the peer.
    pub(crate) peer: String,
    /// The quotient, as text.
    pub(crate) ratio: String,
    /// What was to be reached, as text.
    pub(crate) target: String,
    /// Whether it was.
    pub(crate) reached: bool,
}

impl Findings {
    /// An empty row with its heading.
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, head: &[&str], lines: Vec<Vec<String>>) {
        self.tables.push(Table { head: head.iter().map(|&cell| cell.to_owned()).collect(), lines });
    }

    /// Adds a sentence for the reader.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The row as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n", self.title);
        for table in &self.tables {
            text += &table.aligned();
            text.push('\n');
        }
        text += &targets_table(&self.targets);
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }
}

impl Table {
    /// The table as Markdown with columns padded, so that it also reads well in a terminal.
    pub(crate) fn aligned(&self) -> String {
        let width = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            cells.chain(self.head.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        for line in [&self.head, &rule].into_iter().chain(&self.lines) {
            for (cell, width) in line.iter().zip(&widths) {
                text += &format!("| {cell:width$} ");
            }
            text.push_str("|\n");
        }
        text
    }
}

/// The targets of one or of all rows as a table; nothing when there are none.
pub(crate) fn targets_table<'a>(targets: impl IntoIterator<Item = &'a Target>) -> String {
    let lines: Vec<Vec<String>> = targets.into_iter().map(Target::cells).collect();
    if lines.is_empty() {
        return String::new();
    }
    let head = ["work", "rexd", "held against", "ratio", "target", "reached"].map(str::to_owned).to_vec();
    Table { head, lines }.aligned()
}

impl Target {
    fn cells(&self) -> Vec<String> {
        let reached = if self.reached { "yes" } else { "NO" };
        [&self.work, &self.ours, &self.peer, &self.ratio, &self.target, reached].map(str::to_owned).to_vec()
    }
}

/// A bound on a quotient.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// Ours may be at most this many times the peer's.
    AtMost(f64),
    /// Ours must be at least this many times the peer's.
    AtLeast(f64),
}

impl Bound {
    /// Whether the quotient keeps the bound.
    pub(crate) fn holds(self, quotient: f64) -> bool {
        match self {
            Self::AtMost(limit) => quotient <= limit,
            Self::AtLeast(limit) => quotient >= limit,
        }
    }

    /// The bound as words.
    pub(crate) fn words(self, of: &str) -> String {
        match self {
            Self::AtMost(limit) => format!("at most {limit}x {of}"),
            Self::AtLeast(limit) => format!("at least {limit}x {of}"),
        }
    }
}

/// Holds our figure against a peer's; `show` writes both.
pub(crate) fn compare(
    work: &str,
    ours: f64,
    (peer, theirs): (&str, f64),
    bound: Bound,
    show: fn(f64) -> String,
) -> Target {
    let quotient = ours / theirs;
    Target {
        work: work.to_owned(),
        ours: show(ours),
        peer: format!("{peer} {}", show(theirs)),
        ratio: crate::stats::times(quotient),
        target: bound.words(peer),
        reached: bound.holds(quotient),
    }
}

/// Holds our figure against a fixed limit it must not pass.
pub(crate) fn limit(work: &str, ours: f64, most: f64, show: fn(f64) -> String) -> Target {
    Target {
        work: work.to_owned(),
        ours: show(ours),
        peer: "-".to_owned(),
        ratio: "-".to_owned(),
        target: format!("at most {}", show(most)),
        reached: ours <= most,
    }
}

/// Something that must simply be so.
pub(crate) fn fact(work: &str, ours: impl Into<String>, target: &str, reached: bool) -> Target {
    let none = || "-".to_owned();
    Target {
        work: work.to_owned(),
        ours: ours.into(),
        peer: none(),
        ratio: none(),
        target: target.to_owned(),
        reached,
    }
}
