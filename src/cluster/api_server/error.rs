//! From what a server answers to the reason that a caller can act on.

use std::time::Duration;

use kube::core::Status;

use super::request::Target;
use crate::cluster::ClusterError;
use crate::cluster::secrecy::without_values;

/// An answer that is not a success.
#[derive(Debug)]
pub(super) struct Refusal<'a> {
    /// HTTP status.
    pub(super) code: u16,
    /// The header `Retry-After`, in seconds.
    pub(super) retry_after_seconds: Option<u64>,
    /// A `Status` object, or text from something in between.
    pub(super) body: &'a [u8],
}

/// What `refusal` of doing `verb` with `target` means.
pub(super) fn from_refusal(verb: &'static str, target: &Target<'_>, refusal: &Refusal<'_>) -> ClusterError {
    let status = serde_json::from_slice::<Status>(refusal.body).ok().filter(|status| status.code != 0);
    match status {
        Some(status) => from_status(verb, target, &status, refusal.retry_after_seconds),
        None => {
            let text = String::from_utf8_lossy(refusal.body);
            without_values(target.kind, from_text(verb, target, refusal.code, text.trim(), refusal.retry_after_seconds))
        }
    }
}

/// What a `Status` object means.
pub(super) fn from_status(
    verb: &'static str,
    target: &Target<'_>,
    status: &Status,
    retry_after_seconds: Option<u64>,
) -> ClusterError {
    without_values(target.kind, in_its_words(verb, target, status, retry_after_seconds))
}

fn in_its_words(
    verb: &'static str,
    target: &Target<'_>,
    status: &Status,
    retry_after_seconds: Option<u64>,
) -> ClusterError {
    let why = status.message.clone();
    let key = || target.key();
    let causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        404 if why.starts_with("the server could not find the requested resource") => {
            ClusterError::NotServed { kind: target.kind.clone() }
        }
        404 => ClusterError::NotFound { key: key(), why },
        409 if status.reason == "AlreadyExists" => ClusterError::Exists { key: key() },
        409 => ClusterError::Conflict { key: key(), why },
        // Nothing can be created in a namespace that is being deleted; the server words that as a prohibition.
        403 if causes.clone().any(|cause| cause.reason == "NamespaceTerminating") => {
            ClusterError::NotFound { key: key(), why }
        }
        // A webhook, a quota or a pod security level refuses the object; RBAC refuses the caller.
        403 if !is_read(verb) && !is_about_the_caller(&why) => ClusterError::Invalid { key: key(), why },
        401 | 403 => forbidden(verb, target, why),
        429 => {
            let details = status.details.as_ref().map_or(0, |details| u64::from(details.retry_after_seconds));
            let seconds = retry_after_seconds.or((details > 0).then_some(details));
            ClusterError::TooManyRequests { retry_after: seconds.map(Duration::from_secs) }
        }
        400..=499 => {
            let mut causes: Vec<_> = causes
                .map(|cause| match cause.field.as_str() {
                    "" => cause.message.clone(),
                    field => format!("{field}: {}", cause.message),
                })
                .collect();
            // Metadata is checked twice, so some causes come twice.
            causes.dedup();
            let why = if causes.is_empty() { why } else { causes.join("; ") };
            ClusterError::Invalid { key: key(), why }
        }
        // So the server words a value of the wrong type, or a list with one key twice, in a server-side apply.
        500 if why.starts_with("failed to create typed patch object") => ClusterError::Invalid { key: key(), why },
        code if status.reason.is_empty() => ClusterError::Unavailable { why: format!("{code}: {why}") },
        code => ClusterError::Unavailable { why: format!("{code} {}: {why}", status.reason) },
    }
}

fn from_text(
    verb: &'static str,
    target: &Target<'_>,
    code: u16,
    text: &str,
    retry_after_seconds: Option<u64>,
) -> ClusterError {
    match code {
        // The API server itself answers so for a path that no API has.
        404 => ClusterError::NotServed { kind: target.kind.clone() },
        401 | 403 => forbidden(verb, target, text.into()),
        409 => ClusterError::Conflict { key: target.key(), why: text.into() },
        // Priority and fairness answers without an object.
        429 => ClusterError::TooManyRequests { retry_after: retry_after_seconds.map(Duration::from_secs) },
        400..=499 => ClusterError::Invalid { key: target.key(), why: format!("{code} {text}") },
        code => ClusterError::Unavailable { why: format!("{code} {text}") },
    }
}

fn forbidden(verb: &'static str, target: &Target<'_>, why: String) -> ClusterError {
    ClusterError::Forbidden { verb, kind: target.kind.clone(), namespace: target.namespace.to_owned(), why }
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "list" | "watch")
}

/// Whether RBAC has said it. What a webhook or a policy says is in anybody's words, "cannot" included.
fn is_about_the_caller(message: &str) -> bool {
    let is_by_admission = message.contains(" denied the request") || message.contains(" denied request");
    !is_by_admission && (message.contains(" cannot ") || message.contains("attempting to grant"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::Kind;

    fn refused(verb: &'static str, code: u16, body: &Value) -> ClusterError {
        let target = Target { kind: &Kind::DEPLOYMENT, namespace: "shop", name: "agent" };
        let body = body.to_string();
        from_refusal(verb, &target, &Refusal { code, retry_after_seconds: None, body: body.as_bytes() })
    }

    fn status(code: u16, reason: &str, message: &str, details: &Value) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": code, "reason": reason, "message": message, "details": details,
        })
    }

    #[test]
    fn a_refused_object_names_each_field() {
        let details = json!({"causes": [
            {"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.replicas"},
            {"reason": "FieldValueRequired", "message": "Required value"},
        ]});
        let error = refused("patch", 422, &status(422, "Invalid", "is invalid", &details));
        assert_eq!(
            error.to_string(),
            "Deployment shop/agent is refused: spec.replicas: must be positive; Required value"
        );
    }

    #[test]
    fn rbac_refuses_the_caller_and_a_webhook_the_object() {
        let rbac = r#"deployments.apps "agent" is forbidden: User "serin" cannot patch resource "deployments""#;
        let error = refused("patch", 403, &status(403, "Forbidden", rbac, &json!({})));
        assert_eq!(error.to_string(), format!(r#"not allowed to patch Deployment.apps in namespace "shop": {rbac}"#));
        let webhook = r#"admission webhook "policy.example.com" denied the request: no"#;
        let error = refused("patch", 403, &status(403, "Forbidden", webhook, &json!({})));
        assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
        for said in [
            r#"admission webhook "policy.example.com" denied the request: this image cannot be run"#,
            r#"deployments.apps "agent" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: it cannot be"#,
        ] {
            let error = refused("patch", 403, &status(403, "Forbidden", said, &json!({})));
            assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
        }
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_not_there() {
        let details = json!({"causes": [{"reason": "NamespaceTerminating", "message": "", "field": ""}]});
        let error = refused("patch", 403, &status(403, "Forbidden", "is being terminated", &details));
        assert!(matches!(error, ClusterError::NotFound { .. }), "{error}");
    }

    #[test]
    fn an_unknown_path_is_a_missing_crd_and_an_unknown_name_is_not() {
        let target = Target { kind: &Kind::PROVIDER, namespace: "shop", name: "gpt" };
        let plain = Refusal { code: 404, retry_after_seconds: None, body: b"404 page not found\n" };
        assert_eq!(from_refusal("get", &target, &plain), ClusterError::NotServed { kind: Kind::PROVIDER });
        let error = refused("get", 404, &status(404, "NotFound", "deployments.apps \"agent\" not found", &json!({})));
        assert!(matches!(error, ClusterError::NotFound { .. }), "{error}");
    }

    #[test]
    fn a_throttling_server_says_for_how_long_in_either_place() {
        let target = Target { kind: &Kind::PROVIDER, namespace: "shop", name: "gpt" };
        let plain = Refusal { code: 429, retry_after_seconds: Some(3), body: b"Too many requests" };
        let expected = |seconds| ClusterError::TooManyRequests { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(from_refusal("get", &target, &plain), expected(3));
        let details = json!({"retryAfterSeconds": 5});
        assert_eq!(refused("get", 429, &status(429, "TooManyRequests", "slow", &details)), expected(5));
    }

    #[test]
    fn a_server_error_is_no_verdict_on_the_object() {
        let error = refused("patch", 500, &status(500, "InternalError", "failed calling webhook", &json!({})));
        assert_eq!(error, ClusterError::Unavailable { why: "500 InternalError: failed calling webhook".into() });
    }

    #[test]
    fn a_value_of_the_wrong_type_is_one_though_the_server_calls_it_its_own_error() {
        let message = "failed to create typed patch object (shop/agent): .spec.replicas: expected numeric";
        let error = refused("patch", 500, &status(500, "", message, &json!({})));
        assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
    }
}
