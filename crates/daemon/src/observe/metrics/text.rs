//! A writer of the Prometheus text exposition format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// A page in construction. Each family is opened once, before its samples. Names, labels and help texts are constants of
/// this program that need no escapes.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    /// Opens a family of series of the type `counter`, `gauge` or `histogram`.
    pub(super) fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Adds a sample to the open family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample_with_suffix("", labels, value);
    }

    /// Adds a sample whose name has a suffix, as in histograms.
    pub(super) fn sample_with_suffix(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let family = self.family;
        self.put(format_args!("{family}{suffix}"));
        for (at, (name, content)) in labels.iter().enumerate() {
            let opening = if at == 0 { '{' } else { ',' };
            self.put(format_args!("{opening}{name}=\"{content}\""));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        self.put(format_args!("{closing} {value}\n"));
    }

    /// Adds a family of one sample without labels.
    pub(super) fn single(&mut self, name: &'static str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn put(&mut self, piece: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _written = self.text.write_fmt(piece);
    }
}
