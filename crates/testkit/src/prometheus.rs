//! Prometheus: a parser of the text format 0.0.4 that forgives nothing.
//!
//! Beyond the format it insists on what makes metrics useful: HELP and TYPE once and before the samples, counters in
//! `_total`, base units, no sample twice, buckets that grow and end in `+Inf` with the count of all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

mod families;
mod line;

/// A page that was understood.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    families: Vec<Family>,
}

/// Samples that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// What it is called.
    pub name: String,
    /// What it means, unescaped.
    pub help: String,
    /// How it behaves.
    pub kind: Kind,
    /// Its samples in their order.
    pub samples: Vec<Sample>,
}

/// How the numbers of a family behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The whole name, with the ending that samples of histograms have.
    pub name: String,
    /// Its labels, unescaped.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// Why a page is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; of a family that is wrong as a whole, its first.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for Fault {}

/// Reads a page, or tells the first thing that is wrong with it.
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

    /// Checks that no counter, bucket or count is smaller than it was in an earlier page of the same daemon.
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
