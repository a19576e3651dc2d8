//! The findings of a row: tables of figures and targets, for the terminal and as Markdown.

/// The tables, targets and notes of one row.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Heading of the row.
    pub(crate) title: String,
    /// One table per kind of figure.
    pub(crate) tables: Vec<Table>,
    /// The comparisons that the row makes.
    pub(crate) targets: Vec<Target>,
    /// Explanations of the figures.
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

/// A comparison of a figure with its target.
#[derive(Debug)]
pub(crate) struct Target {
    /// The operation that is compared.
    pub(crate) work: String,
    /// The figure of rexd.
    pub(crate) ours: String,
    /// The figure of the peer, with its name.
    pub(crate) peer: String,
    /// The quotient, as text.
    pub(crate) ratio: String,
    /// The required ratio, as text.
    pub(crate) target: String,
    /// Whether the figure meets the target.
    pub(crate) reached: bool,
}

impl Findings {
    /// Creates empty findings with a heading.
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Adds a table of figures.
    pub(crate) fn table(&mut self, head: &[&str], lines: Vec<Vec<String>>) {
        self.tables.push(Table { head: head.iter().map(|&cell| cell.to_owned()).collect(), lines });
    }

    /// Adds a note below the tables.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Formats the findings as Markdown.
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
    /// Formats the table as Markdown with padded columns, for a terminal too.
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

/// Formats targets as a table; empty without targets.
pub(crate) fn targets_table<'a>(targets: impl IntoIterator<Item = &'a Target>) -> String {
    let lines: Vec<Vec<String>> = targets.into_iter().map(Target::cells).collect();
    if lines.is_empty() {
        return String::new();
    }
    let head = ["work", "rexd", "compared with", "ratio", "target", "reached"].map(str::to_owned).to_vec();
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
    /// The figure of rexd is at most this many times the peer's.
    AtMost(f64),
    /// The figure of rexd is at least this many times the peer's.
    AtLeast(f64),
}

impl Bound {
    /// Whether the quotient is within the bound.
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

/// Compares the figure of rexd with a peer's; `show` formats both.
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

/// Compares the figure of rexd with a fixed limit.
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

/// A target that is met or not, without a figure of a peer.
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
