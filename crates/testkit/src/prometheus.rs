//! Prometheus: a strict parser of the text format 0.0.4.
//!
//! It also requires the conventions for metrics: HELP and TYPE once and before the samples, counters in
//! `_total`, base units, no sample twice, buckets that grow and end in `+Inf` with the count of all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

mod families;
mod line;

/// A parsed page of metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    families: Vec<Family>,
}

/// The samples of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The name of the metric.
    pub name: String,
    /// The help text, unescaped.
    pub help: String,
    /// The type of the metric.
    pub kind: Kind,
    /// Its samples in their order.
    pub samples: Vec<Sample>,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A counter, which only increases.
    Counter,
    /// A gauge, which increases and decreases.
    Gauge,
    /// A histogram with buckets.
    Histogram,
}

/// One sample of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The full name, with the suffix of histogram samples.
    pub name: String,
    /// Its labels, unescaped.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// The first error of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; the first line of the family for an error of the whole family.
    pub line: usize,
    /// The description of the error.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for Fault {}

/// Parses a page, or returns its first error.
pub fn parse(text: &str) -> Result<Exposition, Fault> {
    if !text.is_empty() && !text.ends_with('\n') {
        let reason = "the last line has no line end".to_owned();
        return Err(Fault { line: text.lines().count(), reason });
    }
    let mut reading = families::Reading::default();
    for (index, line) in text.lines().enumerate() {
        reading.take(line).map_err(|reason| Fault { line: index + 1, reason })?;
    }
    reading.finish()
}

impl Exposition {
    /// A family by its name.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// Every family, in the order of the page.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The one sample of this name with exactly these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: BTreeMap<String, String> =
            labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.samples(name).find(|sample| sample.labels == wanted).map(|sample| sample.value)
    }

    /// The sum of all samples of this name that have at least these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|found| found == value))
        };
        self.samples(name).filter(fits).map(|sample| sample.value).sum()
    }

    /// Every value that a label takes in samples of this name.
    pub fn label_values<'e>(&'e self, name: &str, label: &str) -> BTreeSet<&'e str> {
        self.samples(name).filter_map(|sample| sample.labels.get(label)).map(String::as_str).collect()
    }

    /// Checks that no counter, bucket or count has decreased since an earlier page of the same daemon.
    pub fn follows(&self, earlier: &Exposition) -> Result<(), String> {
        for family in earlier.families.iter().filter(|family| family.kind != Kind::Gauge) {
            for before in &family.samples {
                let labels: Vec<(&str, &str)> =
                    before.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                match self.value(&before.name, &labels) {
                    None => return Err(format!("{} {labels:?} is gone", before.name)),
                    Some(now) if now < before.value => {
                        return Err(format!(
                            "{} {labels:?} fell from {} to {now}",
                            before.name, before.value
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    fn samples<'e>(&'e self, name: &str) -> impl Iterator<Item = &'e Sample> {
        self.families.iter().flat_map(|family| &family.samples).filter(move |sample| sample.name == name)
    }
}

#[cfg(test)]
mod tests;
