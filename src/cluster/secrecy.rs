//! Server errors without the values of Secrets.
//!
//! A server that refuses an object quotes what it refuses: a field with its value, the words of a webhook that read the
//! whole object. About a Secret, such words would end in the log, in a status and on screens. So they are taken out where an
//! answer becomes a [`ClusterError`], and nobody behind that can say what he never had. Everything that tells what to do
//! about it stays: the object, what sort of error it is, a missing right, a namespace that is not there.

use super::ClusterError;
use crate::object::Kind;

/// What stands for the words.
const MASKED: &str = "the server's words may hold the values of the Secret, so they are not shown";

/// What the server answered about an object of `kind`, without words that may hold values that nobody is to see.
pub(super) fn without_values(kind: &Kind, error: ClusterError) -> ClusterError {
    if !kind.is_secret() {
        return error;
    }
    let masked = || MASKED.to_owned();
    match error {
        ClusterError::Invalid { key, why: _ } => ClusterError::Invalid { key, why: masked() },
        ClusterError::Conflict { key, why } if is_of_admission(&why) => ClusterError::Conflict { key, why: masked() },
        ClusterError::NotFound { key, why } if is_of_admission(&why) => ClusterError::NotFound { key, why: masked() },
        ClusterError::Forbidden { verb, kind, namespace, why } if is_of_admission(&why) => {
            ClusterError::Forbidden { verb, kind, namespace, why: masked() }
        }
        ClusterError::Unavailable { why } => match answered(&why) {
            Some(code) => ClusterError::Unavailable { why: format!("{code}: {MASKED}") },
            None => ClusterError::Unavailable { why },
        },
        error @ (ClusterError::NotServed { .. }
        | ClusterError::Exists { .. }
        | ClusterError::Conflict { .. }
        | ClusterError::NotFound { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::TooManyRequests { .. }) => error,
    }
}

/// Whether somebody speaks who has read the object: a webhook or a policy, which may answer with any code.
fn is_of_admission(words: &str) -> bool {
    words.contains("denied") || words.contains("admission")
}

/// The code, and the reason if there is one, of an error that the server answered with. One that it did not answer with is
/// about the way to it, and holds nothing of the object.
fn answered(why: &str) -> Option<&str> {
    let code = why.get(..3).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()))?;
    let is_word = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' ');
    match why[3..].split_once(':') {
        Some((reason, _)) if is_word(&reason) && reason.split_whitespace().count() <= 1 => {
            Some(&why[..3 + reason.len()])
        }
        _ => Some(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectKey;

    fn errors(words: &str) -> [ClusterError; 6] {
        let key = || ObjectKey::new(Kind::SECRET, "shop", "key");
        let why = || words.to_owned();
        [
            ClusterError::Invalid { key: key(), why: why() },
            ClusterError::Conflict { key: key(), why: why() },
            ClusterError::NotFound { key: key(), why: why() },
            ClusterError::Forbidden { verb: "patch", kind: Kind::SECRET, namespace: "shop".into(), why: why() },
            ClusterError::Unavailable { why: format!("500 InternalError: {words}") },
            ClusterError::Unavailable { why: format!("500 {words}") },
        ]
    }

    #[test]
    fn whatever_code_a_webhook_answers_with_its_words_about_a_secret_are_not_shown() {
        for error in errors(r#"admission webhook "a.b" denied the request: hush cannot be used"#) {
            let (kind, text) = (error.kind(), error.to_string());
            let shown = without_values(&Kind::SECRET, error.clone());
            assert!(!shown.to_string().contains("hush"), "{shown}");
            assert!(shown.to_string().ends_with(MASKED), "{shown}");
            assert_eq!(shown.kind(), kind);
            assert_eq!(without_values(&Kind::CONFIG_MAP, error).to_string(), text, "nothing else is masked");
        }
    }

    #[test]
    fn values_that_the_server_quotes_itself_are_not_shown() {
        let words = "failed to create typed patch object (shop/key; /v1, Kind=Secret): .data.a: Value: hush";
        for error in [errors(words)[0].clone(), errors(words)[4].clone(), errors(words)[5].clone()] {
            assert!(!without_values(&Kind::SECRET, error).to_string().contains("hush"));
        }
    }

    #[test]
    fn what_tells_a_person_what_to_do_stays() {
        let rbac = r#"secrets "key" is forbidden: User "serin" cannot patch resource "secrets" in API group """#;
        let gone = r#"namespaces "shop" not found"#;
        let raced = "the object has been modified";
        for (error, words) in [(&errors(rbac)[3], rbac), (&errors(gone)[2], gone), (&errors(raced)[1], raced)] {
            assert!(without_values(&Kind::SECRET, error.clone()).to_string().ends_with(words), "{error}");
        }
        let way = ClusterError::Unavailable { why: "connection refused".into() };
        assert_eq!(without_values(&Kind::SECRET, way.clone()), way);
        let code = |why: &str| without_values(&Kind::SECRET, ClusterError::Unavailable { why: why.into() }).to_string();
        assert_eq!(
            code("503 ServiceUnavailable: x"),
            format!("the API server cannot be reached: 503 ServiceUnavailable: {MASKED}")
        );
        assert_eq!(code("502 key is hush: x"), format!("the API server cannot be reached: 502: {MASKED}"));
    }
}
