//! Text: the exposition format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

/// A growing page. Each family is opened once; its samples follow.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    family: &'static str,
}

/// How a family's numbers behave.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Only ever grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Page {
    /// Opens a family.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        self.family = name;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// One sample of the family that is open.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample_of("", labels, value);
    }

    /// One sample whose name has an ending, as those of histograms do.
    pub(super) fn sample_of(&mut self, ending: &str, labels: &[(&str, &str)], value: impl Display) {
        let family = self.family;
        self.put(format_args!("{family}{ending}"));
        for (at, (name, content)) in labels.iter().enumerate() {
            let opening = if at == 0 { '{' } else { ',' };
            self.put(format_args!("{opening}{name}=\"{}\"", escaped(content)));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        self.put(format_args!("{closing} {value}\n"));
    }

    /// A family of one sample.
    pub(super) fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn put(&mut self, piece: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _written = self.text.write_fmt(piece);
    }
}

fn escaped(content: &str) -> String {
    content.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_and_help_are_escaped() {
        let mut page = Page::default();
        page.family("rexd_odd", Kind::Gauge, "a \\ and\na break");
        page.sample(&[("name", "say \"hi\"\\\n"), ("other", "plain")], 1);
        let parsed = testkit::prometheus::parse(&page.finish()).unwrap();
        assert_eq!(parsed.value("rexd_odd", &[("name", "say \"hi\"\\\n"), ("other", "plain")]), Some(1.0));
        assert_eq!(parsed.family("rexd_odd").unwrap().help, "a \\ and\na break");
    }
}
