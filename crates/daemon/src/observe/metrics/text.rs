//! A writer of the Prometheus text exposition format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// A page in construction. Each family is opened once, before its samples.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    family: &'static str,
}

/// The type of a metric family.
#[derive(Debug, Clone, Copy)]
pub(super) enum MetricType {
    /// Never decreases.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts values by size.
    Histogram,
}

impl Page {
    /// Opens a family of series.
    pub(super) fn family(&mut self, name: &'static str, kind: MetricType, help: &str) {
        self.family = name;
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
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
            self.put(format_args!("{opening}{name}=\"{}\"", escaped(content)));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        self.put(format_args!("{closing} {value}\n"));
    }

    /// Adds a family of one sample without labels.
    pub(super) fn single(&mut self, name: &'static str, kind: MetricType, help: &str, value: impl Display) {
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

fn escaped(content: &str) -> String {
    content.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_and_help_are_escaped() {
        let mut page = Page::default();
        page.family("rexd_odd", MetricType::Gauge, "a \\ and\na break");
        page.sample(&[("name", "say \"hi\"\\\n"), ("other", "plain")], 1);
        let parsed = testkit::prometheus::parse(&page.finish()).unwrap();
        assert_eq!(parsed.value("rexd_odd", &[("name", "say \"hi\"\\\n"), ("other", "plain")]), Some(1.0));
        assert_eq!(parsed.family("rexd_odd").unwrap().help, "a \\ and\na break");
    }
}
