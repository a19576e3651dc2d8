//! Families: lines grouped by metric, and the rules for each metric.

use std::collections::BTreeMap;

use super::line::{self, Line};
use super::{Exposition, Family, Fault, Kind, Sample};

/// Units that are not base units.
const NOT_BASE_UNITS: &[&str] = &[
    "ms",
    "milliseconds",
    "us",
    "microseconds",
    "ns",
    "nanoseconds",
    "millis",
    "micros",
    "nanos",
    "minutes",
    "hours",
    "kb",
    "kib",
    "mb",
    "mib",
    "kilobytes",
    "megabytes",
    "bits",
    "percent",
];

/// The page so far.
#[derive(Debug, Default)]
pub(super) struct Reading {
    families: Vec<(usize, Family)>,
    /// After HELP, TYPE must follow.
    helped: Option<(String, String)>,
    lines: usize,
}

impl Reading {
    pub(super) fn take(&mut self, text: &str) -> Result<(), String> {
        self.lines += 1;
        let line = line::parse(text)?;
        match (line, self.helped.take()) {
            (Line::Help { name, help }, None) => {
                if help.trim().is_empty() {
                    return Err(format!("{name} has an empty HELP"));
                }
                if self.families.iter().any(|(_, family)| family.name == name) {
                    return Err(format!("HELP of {name} twice"));
                }
                self.helped = Some((name, help));
                Ok(())
            }
            (Line::Type { name, kind }, Some((helped, help))) if helped == name => {
                named_well(&name, kind)?;
                self.families.push((self.lines, Family { name, help, kind, samples: Vec::new() }));
                Ok(())
            }
            (Line::Sample(sample), None) => self.add(sample),
            (Line::Type { name, .. }, _) => Err(format!("TYPE of {name} does not follow its HELP")),
            (_, Some((name, _))) => Err(format!("TYPE has to follow HELP of {name}")),
        }
    }

    pub(super) fn finish(self) -> Result<Exposition, Fault> {
        if let Some((name, _)) = self.helped {
            return Err(Fault { line: self.lines, reason: format!("TYPE has to follow HELP of {name}") });
        }
        for (line, family) in self.families.iter().filter(|(_, family)| family.kind == Kind::Histogram) {
            histogram(family).map_err(|reason| Fault { line: *line, reason })?;
        }
        Ok(Exposition { families: self.families.into_iter().map(|(_, family)| family).collect() })
    }

    fn add(&mut self, sample: Sample) -> Result<(), String> {
        let Some((_, family)) = self.families.last_mut() else {
            return Err(format!("{} belongs to no family", sample.name));
        };
        let ending = sample.name.strip_prefix(family.name.as_str());
        let belongs = match family.kind {
            Kind::Histogram => matches!(ending, Some("_bucket" | "_sum" | "_count")),
            Kind::Counter | Kind::Gauge => ending == Some(""),
        };
        if !belongs {
            return Err(format!("{} stands in the family {}", sample.name, family.name));
        }
        if family.samples.iter().any(|other| other.name == sample.name && other.labels == sample.labels) {
            return Err(format!("{} {:?} twice", sample.name, sample.labels));
        }
        if family.kind != Kind::Gauge && sample.value < 0.0 {
            return Err(format!("{} is negative", sample.name));
        }
        if sample.labels.contains_key("le") != (ending == Some("_bucket")) {
            return Err(format!("{}: `le` belongs to buckets and to nothing else", sample.name));
        }
        let names = |sample: &Sample| sample.labels.keys().cloned().collect::<Vec<_>>();
        match family.samples.iter().find(|other| other.name == sample.name) {
            Some(first) if names(first) != names(&sample) => {
                Err(format!("{} has other labels than before", sample.name))
            }
            _ => {
                family.samples.push(sample);
                Ok(())
            }
        }
    }
}

/// Only counters end in `_total`; units are base units.
fn named_well(name: &str, kind: Kind) -> Result<(), String> {
    if name.ends_with("_total") != (kind == Kind::Counter) {
        return Err(format!("{name}: counters end in _total, and only they"));
    }
    if ["_bucket", "_sum", "_count"].iter().any(|ending| name.ends_with(ending)) {
        return Err(format!("{name} ends like a sample of a histogram"));
    }
    match name.split('_').find(|word| NOT_BASE_UNITS.contains(word)) {
        Some(unit) => Err(format!("{name}: {unit} is no base unit")),
        None => Ok(()),
    }
}

/// Each series of a histogram has increasing buckets up to `+Inf`, which equals its count, and a sum.
fn histogram(family: &Family) -> Result<(), String> {
    let name = &family.name;
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in family.samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
        let mut labels = sample.labels.clone();
        let bound = match labels.remove("le").as_deref() {
            Some("+Inf") => f64::INFINITY,
            Some(text) => text.parse().map_err(|_| format!("{name}: le={text:?} is no number"))?,
            None => return Err(format!("{name}: a bucket without le")),
        };
        series.entry(labels).or_default().push((bound, sample.value));
    }
    for (labels, buckets) in &series {
        let grows = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        if !grows {
            return Err(format!("{name} {labels:?}: the buckets do not grow"));
        }
        let of = |ending: &str| {
            let whole = format!("{name}{ending}");
            family.samples.iter().find(|sample| sample.name == whole && sample.labels == *labels)
        };
        let count = of("_count").ok_or_else(|| format!("{name} {labels:?} has no count"))?;
        of("_sum").ok_or_else(|| format!("{name} {labels:?} has no sum"))?;
        if buckets.last() != Some(&(f64::INFINITY, count.value)) {
            return Err(format!("{name} {labels:?}: the last bucket is not +Inf with the count"));
        }
    }
    let alone = family.samples.iter().filter(|sample| !sample.name.ends_with("_bucket"));
    match alone.into_iter().find(|sample| !series.contains_key(&sample.labels)) {
        Some(sample) => Err(format!("{} {:?} has no buckets", sample.name, sample.labels)),
        None => Ok(()),
    }
}
