//! PromptPack: which published version a reference means (reference 3.1 and 3.2).
//!
//! Versions are strict SemVer 2.0 behind an optional `v`, compared by precedence, so build metadata never
//! decides. Two objects of equal precedence exist in real clusters (`1.2.0` and `v1.2.0`); which one is meant
//! must not depend on the order of a list, or the pods of an agent would be replaced for nothing again and again.

use std::borrow::Borrow;
use std::cmp::Ordering;

use semver::Version;
use serde_json::Value;

use super::{PackTrack, PromptPackRef};
use crate::object::Object;

/// A published version of a prompt pack, read from its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPack {
    /// Name of the object.
    pub object: String,
    /// `spec.packName`: the logical name that all versions of the pack share.
    pub pack: String,
    /// `spec.version` as it is written, with its `v` if there is one.
    pub version: String,
    /// Name of the ConfigMap with the content, where the source is one.
    pub config_map: Option<String>,
    /// Whether agents with this pack get skills.
    pub has_skills: bool,
    /// Why the pack may not be used: its controller found it broken. `None` also where nothing has looked yet.
    pub rejected: Option<String>,
}

impl PromptPack {
    /// Reads the view. Fields that are not there are empty: the CRD refuses such objects.
    pub fn read(object: &Object) -> Self {
        let text = |pointer| object.text(pointer).unwrap_or_default().to_owned();
        let is_config_map = object.text("/spec/source/type") == Some("configmap");
        let config_map = object.text("/spec/source/configMapRef/name").filter(|name| is_config_map && !name.is_empty());
        Self {
            object: object.name().to_owned(),
            pack: text("/spec/packName"),
            version: text("/spec/version"),
            config_map: config_map.map(str::to_owned),
            has_skills: object.at("/spec/skills").and_then(Value::as_array).is_some_and(|skills| !skills.is_empty()),
            rejected: rejected(object),
        }
    }
}

/// Why a pack reference means no pack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The reference names both a version and a track.
    #[error("the reference to prompt pack {pack:?} names a version and a track, which are mutually exclusive")]
    VersionAndTrack {
        /// The logical pack name.
        pack: String,
    },
    /// No published version matches.
    #[error("no matching PromptPack: {pack:?} has no version {wanted} in namespace {namespace:?}{published}")]
    NoMatch {
        /// The logical pack name.
        pack: String,
        /// What was looked for, such as `2.0.0` or `on the track stable`.
        wanted: String,
        /// Where was looked.
        namespace: String,
        /// The versions that are there, for people; empty where there are none.
        published: Published,
    },
}

impl PackError {
    /// The reason for the condition `PromptPackReady`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::VersionAndTrack { .. } => "PromptPackRefInvalid",
            Self::NoMatch { .. } => "PromptPackNotFound",
        }
    }
}

/// The published versions of a pack, as the end of a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published(Vec<String>);

impl std::fmt::Display for Published {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("; none is published there"),
            versions => write!(f, "; published are {}", versions.join(", ")),
        }
    }
}

/// Why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a semantic version: {why}")]
pub struct VersionError {
    text: String,
    why: String,
}

/// Parses a version: strict SemVer 2.0, three numbers, behind at most one `v`.
///
/// # Errors
/// For any other text; `1.2` and `v1` are no versions.
pub fn parse_version(text: &str) -> Result<Version, VersionError> {
    Version::parse(text.strip_prefix('v').unwrap_or(text))
        .map_err(|error| VersionError { text: text.to_owned(), why: error.to_string() })
}

/// Whether two versions are the same: the same text, or of equal precedence.
pub fn is_same_version(a: &str, b: &str) -> bool {
    a == b || matches!((parse_version(a), parse_version(b)), (Ok(a), Ok(b)) if a.cmp_precedence(&b).is_eq())
}

/// Whether version `a` is newer than `b`; never where one of them is no version.
pub fn is_newer_version(a: &str, b: &str) -> bool {
    matches!((parse_version(a), parse_version(b)), (Ok(a), Ok(b)) if a.cmp_precedence(&b).is_gt())
}

/// The newest of `packs` on a release channel, whatever their pack name and namespace. Of several with equal
/// precedence, the one whose object name comes first. Objects whose version is none are left out.
pub fn channel_max<T: Borrow<Object>>(packs: &[T], track: PackTrack) -> Option<&T> {
    packs
        .iter()
        .filter_map(|pack| Some((parse_version(pack.borrow().text("/spec/version")?).ok()?, pack)))
        .filter(|(version, _)| track == PackTrack::Prerelease || version.pre.is_empty())
        .max_by(|(a, left), (b, right)| {
            // Reversed: the smaller name is to win.
            a.cmp_precedence(b).then_with(|| name(*right).cmp(name(*left)))
        })
        .map(|(_, pack)| pack)
}

/// The one of `packs` that has the version, whatever their pack name and namespace: the same text before equal
/// precedence, then the object name that comes first.
pub fn with_version<'a, T: Borrow<Object>>(packs: &'a [T], version: &str) -> Option<&'a T> {
    let text = |pack: &T| pack.borrow().text("/spec/version").unwrap_or_default().to_owned();
    packs.iter().filter(|pack| is_same_version(&text(pack), version)).min_by(|left, right| {
        let differs = |pack: &T| text(pack) != version;
        differs(left).cmp(&differs(right)).then_with(|| name(*left).cmp(name(*right)))
    })
}

/// The pack of `namespace` that a reference means: its version, or the newest of its track, or else the newest of
/// the track `stable`. Only objects whose `spec.packName` is the name count, whatever their labels say.
///
/// # Errors
/// [`PackError`], where none is meant or none matches.
pub fn resolve_pack<'a, T: Borrow<Object>>(
    packs: &'a [T],
    namespace: &str,
    reference: &PromptPackRef,
) -> Result<&'a T, PackError> {
    let version = reference.version.as_deref().filter(|version| !version.is_empty());
    if version.is_some() && reference.track.is_some() {
        return Err(PackError::VersionAndTrack { pack: reference.name.clone() });
    }
    let named: Vec<&'a T> = packs
        .iter()
        .filter(|pack| {
            let pack: &Object = (*pack).borrow();
            pack.namespace() == namespace && pack.text("/spec/packName") == Some(reference.name.as_str())
        })
        .collect();
    let objects: Vec<&Object> = named.iter().map(|pack| (*pack).borrow()).collect();
    let track = reference.track.unwrap_or(PackTrack::Stable);
    let found = match version {
        Some(version) => with_version(&objects, version),
        None => channel_max(&objects, track),
    };
    let position = found.and_then(|found| objects.iter().position(|object| std::ptr::eq(*object, *found)));
    position.map(|position| named[position]).ok_or_else(|| PackError::NoMatch {
        pack: reference.name.clone(),
        wanted: version.map_or_else(|| format!("on the track {}", track.as_str()), str::to_owned),
        namespace: namespace.to_owned(),
        published: Published(versions(&objects)),
    })
}

fn name<T: Borrow<Object>>(pack: &T) -> &str {
    pack.borrow().name()
}

fn versions(packs: &[&Object]) -> Vec<String> {
    let mut versions: Vec<&str> = packs.iter().filter_map(|pack| pack.text("/spec/version")).collect();
    versions.sort_by(|a, b| match (parse_version(a), parse_version(b)) {
        (Ok(left), Ok(right)) => left.cmp_precedence(&right).then_with(|| a.cmp(b)),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    });
    versions.dedup();
    versions.into_iter().map(str::to_owned).collect()
}

fn rejected(object: &Object) -> Option<String> {
    let conditions = object.at("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let invalid = conditions.iter().find(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("SchemaValid")
            && condition.get("status").and_then(Value::as_str) == Some("False")
    });
    if let Some(condition) = invalid {
        let message = condition.get("message").and_then(Value::as_str).filter(|message| !message.is_empty());
        return Some(message.unwrap_or("its schema is not valid").to_owned());
    }
    (object.text("/status/phase") == Some("Failed")).then(|| "its phase is Failed".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn pack(object: &str, version: &str) -> Object {
        Object::from_value(json!({
            "apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "PromptPack",
            "metadata": {"name": object, "namespace": "shop"},
            "spec": {"packName": "support", "version": version, "source": {"type": "configmap"}},
        }))
        .unwrap()
    }

    fn packs(versions: &[&str]) -> Vec<Object> {
        versions.iter().enumerate().map(|(i, version)| pack(&format!("pp-{i}"), version)).collect()
    }

    fn reference(version: Option<&str>, track: Option<PackTrack>) -> PromptPackRef {
        PromptPackRef { name: "support".into(), version: version.map(str::to_owned), track }
    }

    fn resolved(versions: &[&str], version: Option<&str>, track: Option<PackTrack>) -> Result<String, PackError> {
        let packs = packs(versions);
        resolve_pack(&packs, "shop", &reference(version, track)).map(|pack| PromptPack::read(pack).version)
    }

    #[test]
    fn a_version_is_strict_semver_behind_at_most_one_v() {
        for text in ["1.2.3", "v1.2.3", "1.2.3-beta.1", "1.2.3+build.7", "1.0.0-a-b"] {
            assert!(parse_version(text).is_ok(), "{text}");
        }
        for text in ["v1", "1", "1.2", "not-a-version", "vv1.2.3", "V1.2.3", "01.2.3", "1.2.3-01", " 1.2.3", ""] {
            assert!(parse_version(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_version("1.2").unwrap_err().to_string(),
            r#""1.2" is not a semantic version: unexpected end of input while parsing minor version number"#
        );
    }

    #[test]
    fn versions_are_the_same_by_text_or_by_precedence() {
        for (a, b, same) in [
            ("1.2.3", "1.2.3", true),
            ("v1.5.0", "1.5.0", true),
            ("v2.0.0", "2.0.0", true),
            ("1.2.3+a", "1.2.3+b", true),
            ("1.2.3", "1.2.4", false),
            ("1.0.0-rc.1", "1.0.0", false),
            ("draft", "draft", true),
            ("draft", "final", false),
            ("1.0.0", "latest", false),
            ("v1", "1.0.0", false),
        ] {
            assert_eq!(is_same_version(a, b), same, "{a} {b}");
            assert_eq!(is_same_version(b, a), same, "{b} {a}");
        }
    }

    #[test]
    fn a_version_is_newer_only_by_precedence_and_only_where_both_are_versions() {
        for (a, b, newer) in [
            ("1.1.0", "1.0.0", true),
            ("1.0.0", "1.1.0", false),
            ("1.0.0", "1.0.0", false),
            ("v1.1.0", "1.0.0", true),
            ("1.0.0+b", "1.0.0+a", false),
            ("1.0.0", "1.0.0-rc.1", true),
            ("1.0.0-rc.10", "1.0.0-rc.9", true),
            ("1.0.0-alpha.1", "1.0.0-alpha", true),
            ("1.0.0-alpha.beta", "1.0.0-alpha.1", true),
            ("latest", "1.0.0", false),
            ("1.0.0", "latest", false),
        ] {
            assert_eq!(is_newer_version(a, b), newer, "{a} {b}");
        }
    }

    #[test]
    fn a_pin_finds_its_version_whatever_its_prefix() {
        assert_eq!(resolved(&["v1.5.0"], Some("1.5.0"), None).unwrap(), "v1.5.0");
        let published = ["1.2.0", "1.2.5", "1.3.0"];
        assert_eq!(resolved(&published, Some("1.2.5"), None).unwrap(), "1.2.5");
        assert_eq!(resolved(&published, Some("1.3.0"), None).unwrap(), "1.3.0");
        let missing = resolved(&published, Some("9.9.9"), None).unwrap_err();
        assert_eq!(missing.reason(), "PromptPackNotFound");
        assert_eq!(
            missing.to_string(),
            r#"no matching PromptPack: "support" has no version 9.9.9 in namespace "shop"; published are 1.2.0, 1.2.5, 1.3.0"#
        );
    }

    #[test]
    fn a_track_finds_the_newest_version_of_its_channel() {
        let published = ["1.0.0", "1.1.0", "2.0.0-beta.1", "not-a-version"];
        assert_eq!(resolved(&published, None, Some(PackTrack::Stable)).unwrap(), "1.1.0");
        assert_eq!(resolved(&published, None, Some(PackTrack::Prerelease)).unwrap(), "2.0.0-beta.1");
        let candidates = ["1.0.0-rc.1", "1.0.0-rc.2"];
        assert_eq!(resolved(&candidates, None, Some(PackTrack::Prerelease)).unwrap(), "1.0.0-rc.2");
        assert!(matches!(resolved(&candidates, None, Some(PackTrack::Stable)), Err(PackError::NoMatch { .. })));
        assert!(matches!(resolved(&[], None, None), Err(PackError::NoMatch { .. })));
    }

    #[test]
    fn neither_version_nor_track_is_the_stable_track() {
        let published = ["1.2.0", "1.3.0", "1.4.0-rc.1"];
        assert_eq!(resolved(&published, None, None).unwrap(), "1.3.0");
        assert_eq!(resolved(&published, Some(""), None).unwrap(), "1.3.0");
        assert_eq!(
            resolved(&["1.4.0-rc.1"], None, None).unwrap_err().to_string(),
            r#"no matching PromptPack: "support" has no version on the track stable in namespace "shop"; published are 1.4.0-rc.1"#
        );
    }

    #[test]
    fn version_and_track_together_are_another_error_than_no_match() {
        let error = resolved(&["1.0.0"], Some("1.0.0"), Some(PackTrack::Stable)).unwrap_err();
        assert_eq!(error.reason(), "PromptPackRefInvalid");
        assert!(error.to_string().contains("mutually exclusive"));
    }

    #[test]
    fn equal_precedence_is_decided_by_the_object_name_and_not_by_the_order_of_the_list() {
        let mut packs = vec![pack("b", "v1.2.0"), pack("a", "1.2.0+x"), pack("c", "1.2.0")];
        for _ in 0..packs.len() {
            packs.rotate_left(1);
            assert_eq!(channel_max(&packs, PackTrack::Stable).unwrap().name(), "a");
            assert_eq!(with_version(&packs, "1.2.0").unwrap().name(), "c", "the same text comes first");
            assert_eq!(with_version(&packs, "1.2.0+y").unwrap().name(), "a");
        }
    }

    #[test]
    fn only_packs_of_that_name_and_namespace_count_whatever_their_labels() {
        let mut foreign = pack("foreign", "9.0.0");
        foreign.set(&["spec", "packName"], "other");
        foreign.set(&["metadata", "labels", crate::api::names::PROMPT_PACK_LABEL], "support");
        let mut elsewhere = pack("elsewhere", "8.0.0");
        elsewhere.set(&["metadata", "namespace"], "another");
        let packs = vec![Arc::new(foreign), Arc::new(elsewhere), Arc::new(pack("ours", "1.0.0"))];
        assert_eq!(resolve_pack(&packs, "shop", &reference(None, None)).unwrap().name(), "ours");
    }

    #[test]
    fn a_pack_that_its_controller_rejected_says_why() {
        let mut object = pack("p", "1.0.0");
        assert_eq!(PromptPack::read(&object).rejected, None);
        object.set(&["status", "phase"], "Active");
        assert_eq!(PromptPack::read(&object).rejected, None);
        object.set(&["status", "phase"], "Failed");
        assert_eq!(PromptPack::read(&object).rejected.as_deref(), Some("its phase is Failed"));
        let condition = json!([{"type": "SchemaValid", "status": "False", "message": "prompts: required"}]);
        object.set(&["status", "conditions"], condition);
        assert_eq!(PromptPack::read(&object).rejected.as_deref(), Some("prompts: required"));
    }
}
