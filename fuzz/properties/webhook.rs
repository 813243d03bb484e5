//! Whatever is sent: only who knows the secret is heard, and who does is heard always.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serin::web::hook::{HookSecret, Opening, open, read_hook};
use sha2::Sha256;

const SECRET: &[u8] = b"hush-hush";

/// The input is headers, a line each, an empty line, and the body. Panics where a delivery is taken for what it is not.
pub(crate) fn holds(data: &[u8]) {
    let secret = HookSecret::new(SECRET).expect("it is not empty");
    let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
    let body = data.get(end + 2..).unwrap_or_default();
    let headers: Vec<(&str, &[u8])> = data[..end]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((std::str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
        })
        .collect();
    let given = |name: &str| headers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    let heard = read_hook(&headers, body, &secret);
    assert_eq!(heard, read_hook(&headers, body, &secret));
    if heard.is_ok() {
        let signature = hex(&sign(body));
        let is_signed = headers.iter().any(|(_, value)| {
            let value = value.to_ascii_lowercase();
            value.ends_with(signature.as_bytes())
        });
        let has_token = given("x-gitlab-token") == Some(SECRET);
        // Standard Webhooks: about more than the body, and in base64.
        let standard = given("webhook-id").zip(given("webhook-timestamp")).zip(given("webhook-signature"));
        let is_standard = standard.is_some_and(|((id, time), signature)| {
            let right = BASE64.encode(sign(&[id, b".", time, b".", body].concat()));
            signature.split(|byte| *byte == b' ').any(|one| one.strip_prefix(b"v1,") == Some(right.as_bytes()))
        });
        assert!(is_signed || has_token || is_standard, "heard without the secret: {headers:?}");
    }
    if open(&headers, &secret) == Opening::Refused {
        assert!(heard.is_err(), "heard with nothing to show");
    }
    let signature = format!("sha256={}", hex(&sign(body)));
    let signed = [("x-hub-signature-256", signature.as_bytes())];
    assert!(read_hook(&signed, body, &secret).is_ok(), "who knows the secret is not heard");
    let mut other = body.to_vec();
    other.push(b' ');
    assert!(read_hook(&signed, &other, &secret).is_err(), "a signature holds for another body");
}

fn sign(body: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("a key of any length");
    mac.update(body);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
