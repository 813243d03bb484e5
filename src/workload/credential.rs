//! The credential of a Provider: which Secret holds it, and what of it may be known to decisions.
//!
//! Invariant: the content of a Secret never leaves this function but as a digest. Decisions, logs, the status and what
//! tests print know no more.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::json::text;
use crate::ids::Digest;
use crate::object::{Kind, Object, ObjectKey};

/// The Secret with the credential of `provider`, in the Provider's own namespace; `None` where it has none, or has it from a
/// file or a variable.
pub fn credential_secret(provider: &Object) -> Option<ObjectKey> {
    let name = text(provider.at("/spec")?, "/credential/secretRef/name")?;
    Some(ObjectKey::new(Kind::SECRET, provider.namespace(), name))
}

/// Identity of a Secret's content, whatever the order of its keys (reference 1c: all of its data).
pub fn credential_digest(secret: &Object) -> Digest {
    let mut hash = Sha256::new();
    let mut entries: Vec<(&String, &Value)> =
        secret.at("/data").and_then(Value::as_object).into_iter().flatten().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    for (key, value) in entries {
        // Neither a key nor base64 has a NUL in it.
        for part in [key.as_str(), value.as_str().unwrap_or_default()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
    }
    Digest::new(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(data: Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "shop"}, "data": data,
        }))
        .unwrap()
    }

    #[test]
    fn a_credential_is_known_by_its_content_alone() {
        let digest = |data| credential_digest(&secret(data));
        let one = digest(json!({"a": "MQ==", "b": "Mg=="}));
        assert_eq!(one, digest(json!({"b": "Mg==", "a": "MQ=="})));
        for other in
            [json!({"a": "MQ=="}), json!({"a": "Mg==", "b": "MQ=="}), json!({"aMQ==": "", "b": "Mg=="}), json!({})]
        {
            assert_ne!(one, digest(other));
        }
        assert!(!one.as_str().contains("MQ"), "{one}");
    }

    #[test]
    fn the_secret_is_looked_for_beside_its_provider() {
        let provider = |spec: Value| {
            let value = json!({"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "Provider",
                "metadata": {"name": "openai", "namespace": "models"}, "spec": spec});
            credential_secret(&Object::from_value(value).unwrap())
        };
        let found = provider(json!({"credential": {"secretRef": {"name": "key"}}}));
        assert_eq!(found, Some(ObjectKey::new(Kind::SECRET, "models", "key")));
        for none in
            [json!({}), json!({"credential": {"envVar": "KEY"}}), json!({"credential": {"secretRef": {"name": ""}}})]
        {
            assert_eq!(provider(none), None);
        }
    }
}
