//! One text in, one valid value or a reason out: the checks of single settings.

use std::net::SocketAddr;
use std::time::Duration;

use crate::api::duration::parse_duration;
use crate::ids::{BranchName, ClusterName, CommitSha, SourceName, TreePath};
use crate::manifest::{KindRule, nearest};
use crate::settings::effective::{LogFormat, LogLevel};

/// Why a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) why: String,
    pub(crate) hint: Option<String>,
}

impl Invalid {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), hint: None }
    }

    fn hint(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: Some(hint.into()) }
    }
}

/// The result of a check.
pub(crate) type Checked<T> = Result<T, Invalid>;

/// `true` or `false`, in the spellings of YAML and of shells.
pub(crate) fn parse_switch(text: &str) -> Checked<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(Invalid::new(format!("{text:?} is neither true nor false"))),
    }
}

/// A Go duration of at least `least`.
pub(crate) fn parse_at_least(text: &str, least: Duration) -> Checked<Duration> {
    let duration = parse_duration(text).map_err(|error| Invalid::new(error.to_string()))?.unsigned_abs();
    if duration < least {
        return Err(Invalid::new(format!("{text:?} is too short; the least is {}s", least.as_secs())));
    }
    Ok(duration)
}

/// How many agents are looked at side by side.
pub(crate) fn parse_workers(text: &str) -> Checked<usize> {
    // More than this only makes the API server's fairness queues longer.
    const MOST: usize = 256;
    match text.parse() {
        Ok(workers @ 1..=MOST) => Ok(workers),
        _ => Err(Invalid::new(format!("{text:?} is not a whole number of 1 to {MOST}"))),
    }
}

/// An address and port, `:port` for all addresses, or `none`.
pub(crate) fn parse_listen(text: &str) -> Checked<Option<SocketAddr>> {
    let full = match text.strip_prefix("localhost:") {
        _ if text == "none" => return Ok(None),
        Some(port) => format!("127.0.0.1:{port}"),
        None if text.starts_with(':') => format!("0.0.0.0{text}"),
        None => text.to_owned(),
    };
    full.parse().map(Some).map_err(|_| {
        Invalid::hint(
            format!("{text:?} is not an address and a port"),
            "write for example 0.0.0.0:8080, [::]:8080, :8080 or none",
        )
    })
}

/// A DNS label: what namespaces and source names are.
pub(crate) fn parse_label(text: &str) -> Checked<String> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err(Invalid::new(format!("{text:?} is not made of a-z, 0-9 and inner `-`, at most 63 of them")))
}

/// The name of an environment variable.
pub(crate) fn parse_variable_name(text: &str) -> Checked<String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    // Whoever writes the secret itself here must not find it in a log.
    Err(Invalid::hint(
        "this is not the name of an environment variable",
        "write the name of the variable here, and the secret into the variable",
    ))
}

/// The name of a source.
pub(crate) fn parse_source_name(text: &str) -> Checked<SourceName> {
    parse_label(text).map(SourceName::new)
}

/// The name of a cluster. A DNS label, because it becomes a part of a branch name and of an e-mail address.
pub(crate) fn parse_cluster_name(text: &str) -> Checked<ClusterName> {
    parse_label(text).map(ClusterName::new)
}

/// A branch by its short name.
pub(crate) fn parse_branch(text: &str) -> Checked<BranchName> {
    check_ref_name(text, "refs/heads/").map(BranchName::new)
}

/// A tag by its short name.
pub(crate) fn parse_tag(text: &str) -> Checked<String> {
    check_ref_name(text, "refs/tags/")
}

/// A full commit id.
pub(crate) fn parse_commit(text: &str) -> Checked<CommitSha> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.len() {
        40 if is_hex => Ok(CommitSha::new(text.to_ascii_lowercase())),
        4..40 if is_hex => Err(Invalid::hint(
            format!("{text:?} is an abbreviated commit id, which a server cannot be asked for"),
            "write all 40 digits; `git rev-parse` prints them",
        )),
        _ => Err(Invalid::new(format!("{text:?} is not a commit id of 40 hex digits"))),
    }
}

/// A folder of the repository, without `.`, `..` and doubled slashes.
pub(crate) fn parse_folder(text: &str) -> Checked<TreePath> {
    if text.contains(['\\', '\0']) || text.chars().any(char::is_control) {
        return Err(Invalid::new(format!("{text:?} has characters that no folder of a repository has")));
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(Invalid::hint(
            format!("{text:?} leaves the repository with `..`"),
            "a path starts at the root of the repository",
        ));
    }
    Ok(TreePath::new(parts.join("/")))
}

/// `*`, `*.group`, `Kind.group` or `Kind`.
pub(crate) fn parse_kind_rule(text: &str) -> Checked<KindRule> {
    let help = "write `ConfigMap`, `AgentRuntime.omnia.altairalabs.ai`, `*.omnia.altairalabs.ai` or `*`";
    let (kind, group) = match text.split_once('.') {
        Some((_, "")) => return Err(Invalid::hint(format!("{text:?} has no group behind the dot"), help)),
        Some((kind, group)) => (kind, group),
        None => (text, ""),
    };
    let is_kind =
        kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_group = group.is_empty() || group.split('.').all(is_dns_label);
    match kind {
        _ if !is_group => Err(Invalid::hint(format!("{text:?} names no API group"), help)),
        "*" if group.is_empty() => Ok(KindRule::Any),
        "*" => Ok(KindRule::Group(group.to_owned())),
        _ if is_kind => Ok(KindRule::Kind { kind: kind.to_owned(), group: group.to_owned() }),
        _ => Err(Invalid::hint(format!("{text:?} names no kind"), help)),
    }
}

/// `text`, `json` or `auto`.
pub(crate) fn parse_log_format(text: &str) -> Checked<LogFormat> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(one_of(text, &["auto", "text", "json"])),
    }
}

/// A level, or directives as `RUST_LOG` takes them (they hold a `=` or a `,`).
pub(crate) fn parse_log_level(text: &str) -> Checked<LogLevel> {
    match text {
        "error" => Ok(LogLevel::Error),
        "warn" => Ok(LogLevel::Warn),
        "info" => Ok(LogLevel::Info),
        "debug" => Ok(LogLevel::Debug),
        "trace" => Ok(LogLevel::Trace),
        _ if text.contains(['=', ',']) => match tracing_subscriber::EnvFilter::try_new(text) {
            Ok(_) => Ok(LogLevel::Directives(text.to_owned())),
            Err(_) => Err(Invalid::hint(
                format!("{text:?} are no log directives"),
                "write for example info or serin=debug,kube=info",
            )),
        },
        _ => Err(one_of(text, &["error", "warn", "info", "debug", "trace"])),
    }
}

/// An image reference; the cluster has the last word about it.
pub(crate) fn parse_image(text: &str) -> Checked<String> {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Invalid::new(format!("{text:?} is not an image reference")));
    }
    Ok(text.to_owned())
}

/// A text that must say something: a context, an author's name.
pub(crate) fn parse_words(text: &str) -> Checked<String> {
    if text.trim().is_empty() || text.contains(['<', '>']) || text.chars().any(char::is_control) {
        return Err(Invalid::new(format!("{text:?} is empty or has `<`, `>` or control characters in it")));
    }
    Ok(text.trim().to_owned())
}

/// An e-mail address, as far as git cares.
pub(crate) fn parse_email(text: &str) -> Checked<String> {
    let is_one = text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
    if !is_one || text.contains(['<', '>']) || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Invalid::new(format!("{text:?} is not an e-mail address")));
    }
    Ok(text.to_owned())
}

fn one_of(text: &str, known: &[&str]) -> Invalid {
    let why = format!("{text:?} is none of {}", known.join(", "));
    match nearest(text, known.iter().copied()) {
        Some(meant) => Invalid::hint(why, format!("did you mean `{meant}`?")),
        None => Invalid::new(why),
    }
}

fn is_dns_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// The rules of `git check-ref-format`, for a name below `prefix`.
fn check_ref_name(text: &str, prefix: &str) -> Checked<String> {
    if let Some(short) = text.strip_prefix(prefix) {
        return Err(Invalid::hint(format!("{text:?} is a full reference name"), format!("write `{short}`")));
    }
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let has_bad = text.bytes().any(|byte| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte));
    let is_good = text.split('/').all(is_part)
        && !has_bad
        && !text.contains("..")
        && !text.contains("@{")
        && !text.ends_with('.')
        && text != "@"
        && !text.starts_with('-');
    if is_good { Ok(text.to_owned()) } else { Err(Invalid::new(format!("{text:?} is not a name that git allows"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_follow_the_rules_of_git() {
        for good in ["main", "release/1.2", "serin/status/prod", "füx"] {
            assert!(parse_branch(good).is_ok(), "{good}");
        }
        for bad in [
            "", "a b", "a..b", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a~1", "a^", "a:b", "-a", "@", "a@{1}", "a.",
        ] {
            assert!(parse_branch(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_branch("refs/heads/main").unwrap_err().hint.as_deref(), Some("write `main`"));
    }

    #[test]
    fn folders_are_normalised_and_stay_in_the_repository() {
        for (text, folder) in [("", ""), (".", ""), ("./clusters//prod/", "clusters/prod"), ("/a/./b", "a/b")] {
            assert_eq!(parse_folder(text).unwrap().as_str(), folder, "{text}");
        }
        for bad in ["..", "a/../b", "a\\b", "a\nb"] {
            assert!(parse_folder(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kind_rules_permit_a_kind_a_group_or_everything() {
        let permits = |rule: &str, kind: &Kind| parse_kind_rule(rule).unwrap().matches(kind);
        use crate::object::Kind;
        assert!(permits("ConfigMap", &Kind::CONFIG_MAP));
        assert!(!permits("ConfigMap", &Kind::SERVICE));
        assert!(permits("*.omnia.altairalabs.ai", &Kind::AGENT_RUNTIME));
        assert!(!permits("*.omnia.altairalabs.ai", &Kind::CONFIG_MAP));
        assert!(permits("Deployment.apps", &Kind::DEPLOYMENT));
        assert!(!permits("Deployment", &Kind::DEPLOYMENT));
        assert!(permits("*", &Kind::DEPLOYMENT));
        for rule in ["ConfigMap", "*.omnia.altairalabs.ai", "Deployment.apps", "*"] {
            assert_eq!(parse_kind_rule(rule).unwrap().to_string(), rule);
        }
        for bad in ["", "configmap", "ConfigMap.", "*.", "Deployment.Apps", "Config Map"] {
            assert!(parse_kind_rule(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_to_listen_on_may_be_short_or_none() {
        assert_eq!(parse_listen("none").unwrap(), None);
        assert_eq!(parse_listen(":9090").unwrap(), Some("0.0.0.0:9090".parse().unwrap()));
        assert_eq!(parse_listen("localhost:0").unwrap(), Some("127.0.0.1:0".parse().unwrap()));
        assert_eq!(parse_listen("[::1]:80").unwrap(), Some("[::1]:80".parse().unwrap()));
        for bad in ["", "8080", "host:8080", "0.0.0.0", ":99999"] {
            assert!(parse_listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_abbreviated_commit_is_refused_with_the_way_out() {
        assert!(parse_commit(&"A1".repeat(20)).unwrap().as_str().starts_with("a1a1"));
        assert!(parse_commit("abc1234").unwrap_err().hint.unwrap().contains("rev-parse"));
        assert!(parse_commit("main").is_err());
    }

    #[test]
    fn log_levels_are_words_or_directives() {
        assert_eq!(parse_log_level("debug"), Ok(LogLevel::Debug));
        assert_eq!(parse_log_level("serin=debug,kube=info"), Ok(LogLevel::Directives("serin=debug,kube=info".into())));
        assert!(parse_log_level("serin=loud").is_err());
        assert_eq!(parse_log_level("warning").unwrap_err().hint, None);
        assert_eq!(parse_log_level("inof").unwrap_err().hint.as_deref(), Some("did you mean `info`?"));
    }
}
