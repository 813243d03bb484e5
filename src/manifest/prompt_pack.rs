//! PromptPacks: what their schema cannot say.

use crate::api::names::PROMPT_PACK_LABEL;
use crate::object::Object;

use super::diagnostic::Problem;
use super::names;
use super::node::{Node, shorten};
use super::validate::Finding;

/// What is wrong, or surely not meant, about the PromptPack `object`.
pub(super) fn check(object: &Object, root: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut warn = |field: &str, message: String, hint: &str| {
        findings.push(Finding {
            at: root.locate(field),
            problem: Problem::Suspicious,
            field: field.to_owned(),
            message,
            hint: Some(hint.to_owned()),
        });
    };
    if let Some(version) = object.text("/spec/version")
        && let Some(why) = why_no_version(version)
    {
        warn(
            "spec.version",
            format!("no release channel ever chooses {}: {why}", shorten(version)),
            "write a semantic version such as 1.2.3 or 1.2.3-rc.1",
        );
    }
    if let Some(pack) = object.text("/spec/packName") {
        if let Some(why) = names::why_no_label_value(pack) {
            warn(
                "spec.packName",
                format!("agents find packs by a label, and {} is no value of one: {why}", shorten(pack)),
                "choose another name",
            );
        }
        if let Some(label) = object.label(PROMPT_PACK_LABEL).filter(|label| *label != pack) {
            warn(
                "metadata.labels",
                format!("the label {PROMPT_PACK_LABEL} says {label:?}, and spec.packName {pack:?}"),
                "agents find packs by the label: remove it, or make both the same",
            );
        }
    }
    if object.text("/spec/source/configMapRef/name").is_none_or(str::is_empty)
        && object.text("/spec/source/type") == Some("configmap")
    {
        warn(
            "spec.source.configMapRef",
            "no ConfigMap is named: the pack has no content".to_owned(),
            "name the ConfigMap that holds `pack.json`",
        );
    }
    findings
}

/// Why `text` is no version in the sense of pack selection (strict SemVer 2.0 after at most one leading `v`), or
/// `None`.
pub(super) fn why_no_version(text: &str) -> Option<String> {
    semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).err().map(|error| error.to_string())
}
