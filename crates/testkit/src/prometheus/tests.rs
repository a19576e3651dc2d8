//! Pages that the parser accepts and rejects.

use super::*;

const GOOD: &str = "\
# HELP a_total Things.
# TYPE a_total counter
a_total{kind=\"x\"} 3
a_total{kind=\"y\"} 4.5
# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{m=\"q\",le=\"0.1\"} 1
b_seconds_bucket{m=\"q\",le=\"+Inf\"} 2
b_seconds_sum{m=\"q\"} 1.5
b_seconds_count{m=\"q\"} 2
# HELP c Now.
# TYPE c gauge
c -1
";

#[test]
fn a_good_page_is_read_whole() {
    let page = parse(GOOD).unwrap();
    assert_eq!(page.families().len(), 3);
    assert_eq!(page.value("a_total", &[("kind", "y")]), Some(4.5));
    assert_eq!(page.value("a_total", &[]), None);
    assert_eq!(page.sum("a_total", &[]), 7.5);
    assert_eq!(page.value("b_seconds_count", &[("m", "q")]), Some(2.0));
    assert_eq!(page.value("c", &[]), Some(-1.0));
    assert_eq!(page.label_values("a_total", "kind").into_iter().collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(parse(""), Ok(Exposition::default()));
}

#[test]
fn every_change_that_breaks_a_rule_is_found() {
    let changes = [
        ("# HELP a_total Things.\n", "", "does not follow"),
        ("# TYPE a_total counter\n", "", "has to follow"),
        ("# TYPE c gauge\n", "# TYPE c summary\n", "no type"),
        ("Things.", " ", "empty HELP"),
        ("c -1\n", "c -1", "no line end"),
        ("c -1\n", "c -1\n\n", "empty line"),
        ("c -1\n", "c -1\n# end\n", "comment"),
        ("c -1\n", "c\n", "without a value"),
        ("c -1\n", "c NaN\n", "no finite number"),
        ("c -1\n", "c 1 1700000000\n", "something follows"),
        ("c -1\n", "c -1\nc 2\n", "twice"),
        ("c -1\n", "d -1\n", "stands in the family"),
        ("c -1\n", "c{le=\"1\"} -1\n", "belongs to buckets"),
        ("a_total{kind=\"y\"} 4.5", "a_total{sort=\"y\"} 4.5", "other labels"),
        ("a_total{kind=\"y\"} 4.5", "a_total{kind=\"x\"} 4.5", "twice"),
        ("a_total{kind=\"y\"} 4.5", "a_total{kind=\"y\"} -4", "negative"),
        ("a_total{kind=\"y\"} 4.5", "a_total{kind=\"y} 4.5", "without an end"),
        ("a_total{kind=\"y\"} 4.5", "a_total{kind=\"\\y\"} 4.5", "backslash"),
        ("a_total{kind=\"y\"} 4.5", "a_total{kind=\"y\",kind=\"z\"} 4.5", "label kind twice"),
        ("a_total{kind=\"y\"} 4.5", "a_total{1=\"y\"} 4.5", "no name of a label"),
        ("# HELP c Now.", "# HELP a_total Now.", "twice"),
        ("le=\"+Inf\"} 2", "le=\"+Inf\"} 3", "not +Inf with the count"),
        ("le=\"+Inf\"} 2", "le=\"9\"} 2", "not +Inf with the count"),
        ("le=\"0.1\"} 1", "le=\"0.1\"} 7", "do not grow"),
        ("b_seconds_sum{m=\"q\"} 1.5\n", "", "has no sum"),
        ("b_seconds_count{m=\"q\"} 2\n", "", "has no count"),
        ("b_seconds_sum{m=\"q\"}", "b_seconds_sum{m=\"r\"}", "has no sum"),
    ];
    for (from, to, reason) in changes {
        assert!(GOOD.contains(from), "{from}");
        let fault = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(fault.reason.contains(reason), "{to:?}: {fault}");
    }
}

#[test]
fn names_tell_kind_and_base_unit() {
    let page = |name: &str, kind: &str| format!("# HELP {name} X.\n# TYPE {name} {kind}\n{name} 1\n");
    for (name, kind) in [("a", "gauge"), ("a_bytes", "gauge"), ("a_seconds_total", "counter")] {
        parse(&page(name, kind)).unwrap();
    }
    let bad = [("a", "counter"), ("a_total", "gauge"), ("a_ms", "gauge"), ("a_kib_total", "counter")];
    for (name, kind) in bad.into_iter().chain([("A", "gauge"), ("a__b", "gauge"), ("a_count", "gauge")]) {
        assert!(parse(&page(name, kind)).is_err(), "{name} {kind}");
    }
}

#[test]
fn a_later_page_may_only_grow() {
    let first = parse(GOOD).unwrap();
    let grown = parse(&GOOD.replace("kind=\"x\"} 3", "kind=\"x\"} 4").replace("c -1", "c -2")).unwrap();
    assert_eq!(grown.follows(&first), Ok(()));
    assert!(first.follows(&grown).is_err());
    assert!(Exposition::default().follows(&first).is_err());
}
