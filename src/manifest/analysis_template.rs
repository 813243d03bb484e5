//! RolloutAnalysis templates: what their schema cannot say (seed "RolloutAnalysis CRD").

use std::collections::HashSet;

use crate::api::duration::parse_duration;

use super::diagnostic::Problem;
use super::node::{Content, Node, shorten};
use super::validate::Finding;

/// The providers in the order in which the first one that is set is asked.
const PROVIDERS: [&str; 3] = ["prometheus", "web", "arenaEval"];

/// What is wrong, or surely not meant, about the RolloutAnalysis `root`.
pub(super) fn check(root: &Node) -> Vec<Finding> {
    let mut check = Check { root, findings: Vec::new() };
    let Some(spec) = root.get("spec") else { return Vec::new() };
    let arguments: Vec<&str> = items(spec, "args").iter().filter_map(|arg| arg.text("name")).collect();
    check.unique("spec.args", &arguments, "argument");
    let metrics = items(spec, "metrics");
    let names: Vec<&str> = metrics.iter().map(|metric| metric.text("name").unwrap_or_default()).collect();
    check.unique("spec.metrics", &names, "metric");
    let declared: HashSet<&str> = arguments.into_iter().collect();
    for (i, metric) in metrics.iter().enumerate() {
        check.metric(&format!("spec.metrics[{i}]"), metric, &declared);
    }
    check.findings
}

struct Check<'a> {
    root: &'a Node,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn report(&mut self, problem: Problem, field: String, message: String, hint: Option<String>) {
        self.findings.push(Finding { at: self.root.locate(&field), problem, field, message, hint });
    }

    fn unique(&mut self, list: &str, names: &[&str], what: &str) {
        let mut seen = HashSet::new();
        for (i, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if !seen.insert(name) {
                self.report(
                    Problem::InvalidField,
                    format!("{list}[{i}].name"),
                    format!("the {what} {name:?} is there twice"),
                    Some("results are kept by name: give each its own".to_owned()),
                );
            }
        }
    }

    fn metric(&mut self, path: &str, metric: &Node, arguments: &HashSet<&str>) {
        if let Some(interval) = metric.text("interval")
            && let Err(error) = parse_duration(interval)
        {
            self.report(Problem::InvalidField, format!("{path}.interval"), error.to_string(), None);
        }
        if let Some(condition) = metric.text("successCondition")
            && let Some(why) = why_no_condition(condition)
        {
            self.report(
                Problem::InvalidField,
                format!("{path}.successCondition"),
                format!("{} is no condition: {why}", shorten(condition)),
                Some(
                    "write `result[0] <op> <number>` with one of >= <= > < == !=, such as `result[0] <= 0.05`"
                        .to_owned(),
                ),
            );
        }
        let Some(provider) = metric.get("provider").filter(|node| matches!(node.content, Content::Map(_))) else {
            return;
        };
        let set: Vec<&str> = PROVIDERS.into_iter().filter(|name| is_set(provider, name)).collect();
        match set[..] {
            [] => self.report(
                Problem::MissingField,
                format!("{path}.provider"),
                format!("one of {} must be set", PROVIDERS.join(", ")),
                None,
            ),
            [_] => {}
            [first, ..] => self.report(
                Problem::Suspicious,
                format!("{path}.provider"),
                format!("{} are set: only {first} is asked", set.join(" and ")),
                Some("remove the others".to_owned()),
            ),
        }
        for (field, text) in templated(provider) {
            self.placeholders(&format!("{path}.provider.{field}"), text, arguments);
        }
    }

    /// Only `{{args.<name>}}`, written exactly so, is replaced; anything else goes out as it stands.
    fn placeholders(&mut self, field: &str, text: &str, arguments: &HashSet<&str>) {
        let mut rest = text;
        while let Some((inner, tail)) = rest.split_once("{{").and_then(|(_, tail)| tail.split_once("}}")) {
            rest = tail;
            let known = inner.strip_prefix("args.").filter(|name| arguments.contains(name));
            if known.is_some() {
                continue;
            }
            let (message, hint) = match inner.trim().strip_prefix("args.") {
                Some(name) if inner != inner.trim() => (
                    format!("`{{{{{inner}}}}}` is not replaced"),
                    format!("write `{{{{args.{name}}}}}`, without blanks"),
                ),
                Some(name) => (
                    format!("spec.args declares no argument {name:?}"),
                    "declare it, or every step that uses this template must set it".to_owned(),
                ),
                None => (format!("`{{{{{inner}}}}}` is not replaced"), "only `{{args.<name>}}` is".to_owned()),
            };
            self.report(Problem::Suspicious, field.to_owned(), message, Some(hint));
        }
    }
}

fn items<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    match node.get(key).map(|node| &node.content) {
        Some(Content::List(items)) => items,
        _ => &[],
    }
}

fn is_set(node: &Node, key: &str) -> bool {
    node.get(key).is_some_and(|value| !matches!(value.content, Content::Null))
}

/// The texts of a provider in which arguments are replaced, by field.
fn templated(provider: &Node) -> Vec<(String, &str)> {
    let mut texts = Vec::new();
    if let Some(query) = provider.get("prometheus").and_then(|node| node.text("query")) {
        texts.push(("prometheus.query".to_owned(), query));
    }
    let Some(web) = provider.get("web") else { return texts };
    if let Some(url) = web.text("url") {
        texts.push(("web.url".to_owned(), url));
    }
    if let Some(Content::Map(headers)) = web.get("headers").map(|node| &node.content) {
        for header in headers {
            if let Content::Text(text) = &header.value.content {
                texts.push((format!("web.headers.{}", header.key), text));
            }
        }
    }
    texts
}

/// Why `text` is no condition `result[N] <op> <number>`, or `None`.
fn why_no_condition(text: &str) -> Option<&'static str> {
    let Some(rest) = text.trim().strip_prefix("result[") else { return Some("it does not begin with result[0]") };
    let Some((index, rest)) = rest.split_once(']') else { return Some("the ] behind result[0 is missing") };
    if index.is_empty() || !index.bytes().all(|b| b.is_ascii_digit()) {
        return Some("the index in result[...] is no number");
    }
    let rest = rest.trim_start();
    let Some(number) = [">=", "<=", "==", "!=", ">", "<"].into_iter().find_map(|op| rest.strip_prefix(op)) else {
        return Some("a comparison is missing");
    };
    let number = number.trim_start();
    let digits = number.strip_prefix('-').unwrap_or(number);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (!is_digits(whole) || !fraction.is_none_or(is_digits)).then_some("what it is compared with is no plain number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_result_an_operator_and_a_number() {
        for text in ["result[0] <= 0.05", "result[0]>=1", " result[12] == -3.5 ", "result[0] != 0", "result[0] < 10"] {
            assert_eq!(why_no_condition(text), None, "{text}");
        }
        for text in [
            "",
            "result <= 1",
            "result[] > 1",
            "result[a] > 1",
            "result[0] => 1",
            "result[0] = 1",
            "result[0] > ",
            "result[0] > 5%",
            "result[0] > .5",
            "result[0] > 1.",
            "result[0] > 1e3",
            "0.5 > result[0]",
            "result[0] > 1 && result[0] < 2",
            "result[0 > 1",
            "result[0] > +1",
            "len(result) > 1",
        ] {
            assert!(why_no_condition(text).is_some(), "{text}");
        }
    }
}
