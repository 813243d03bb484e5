//! The secret of a webhook, as it is now: mounted secrets are swapped under a running process.

use std::io::Read as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};

use crate::settings::WebhookSecret;
use crate::web::hook::HookSecret;

/// How old what was read may be. A file is read again this often at most, however many deliveries come; a secret that is
/// changed on both sides at once counts a second later.
const REREAD: SignedDuration = SignedDuration::from_secs(1);

/// A file that is longer holds no secret.
const MOST_BYTES: u64 = 64 << 10;

/// Reads a secret again when what is known of it is old.
#[derive(Debug)]
pub(crate) struct SecretReader {
    place: WebhookSecret,
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    at: Timestamp,
    found: Result<HookSecret, String>,
}

/// What a look at a secret has found.
pub(crate) struct Found {
    /// The secret, or why there is none.
    pub(crate) secret: Result<HookSecret, String>,
    /// Whether it was there before and is not now, or was never looked for.
    pub(crate) is_lost: bool,
}

impl SecretReader {
    pub(crate) fn new(place: WebhookSecret) -> Self {
        Self { place, known: Mutex::default() }
    }

    /// The secret at `now`. It reads a small file, at most once in a second.
    pub(crate) fn read(&self, now: Timestamp) -> Found {
        let mut known = self.known();
        if let Some(known) = known.as_ref()
            && now.duration_since(known.at).abs() < REREAD
        {
            return Found { secret: known.found.clone(), is_lost: false };
        }
        let secret = read(&self.place);
        let is_lost = secret.is_err() && known.as_ref().is_none_or(|known| known.found.is_ok());
        *known = Some(Known { at: now, found: secret.clone() });
        Found { secret, is_lost }
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        // It is a cache, whole at any time.
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn read(place: &WebhookSecret) -> Result<HookSecret, String> {
    let (contents, what) = match place {
        WebhookSecret::File(path) => (read_file(path)?, format!("the file {}", path.display())),
        WebhookSecret::Variable(name) => match std::env::var_os(name) {
            Some(value) => (value.into_encoded_bytes(), format!("the variable {name}")),
            None => return Err(format!("the variable {name} is not set")),
        },
    };
    HookSecret::new(&contents).map_err(|why| format!("{what} {why}"))
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let error = |error| format!("the file {} cannot be read: {error}", path.display());
    let mut contents = Vec::new();
    let file = std::fs::File::open(path).map_err(error)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut contents).map_err(error)?;
    if u64::try_from(contents.len()).is_ok_and(|length| length > MOST_BYTES) {
        return Err(format!("the file {} is too long for a secret", path.display()));
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn a_secret_that_is_swapped_is_read_again_and_not_more_often_than_needed() {
        let folder = tempfile::tempdir().unwrap();
        // As Kubernetes mounts it: the file is a link into a folder that is a link to the version in force.
        let version = |name: &str, text: &str| {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("hook"), text).unwrap();
            std::os::unix::fs::symlink(name, folder.path().join("new")).unwrap();
            std::fs::rename(folder.path().join("new"), folder.path().join("data")).unwrap();
        };
        version("v1", "one\n");
        std::os::unix::fs::symlink("data/hook", folder.path().join("hook")).unwrap();
        let reader = SecretReader::new(WebhookSecret::File(folder.path().join("hook")));
        assert_eq!(reader.read(at(0)).secret, Ok(HookSecret::new(b"one").unwrap()));
        version("v2", "two\r\n");
        assert_eq!(reader.read(at(999)).secret, Ok(HookSecret::new(b"one").unwrap()));
        assert_eq!(reader.read(at(1_000)).secret, Ok(HookSecret::new(b"two").unwrap()));
        // A clock that is set back does not keep the old one in force.
        version("v3", "three");
        assert_eq!(reader.read(at(-5_000)).secret, Ok(HookSecret::new(b"three").unwrap()));
    }

    #[test]
    fn a_secret_that_is_not_there_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hook");
        let reader = SecretReader::new(WebhookSecret::File(path.clone()));
        let found = reader.read(at(0));
        assert!(found.secret.unwrap_err().contains("cannot be read") && found.is_lost);
        assert!(!reader.read(at(1_000)).is_lost);
        // Nobody signs with an empty secret.
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(reader.read(at(2_000)).secret, Err(format!("the file {} is empty", path.display())));
        for (seconds, text, why) in [
            (1, " \t\n", "is empty"),
            (3, "whsec_\n", "has nothing behind `whsec_`"),
            (5, "whsec_not base64", "has no base64 behind `whsec_`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = reader.read(at(10_000 * seconds)).secret;
            assert_eq!(found, Err(format!("the file {} {why}", path.display())), "{text:?}");
        }
        std::fs::write(&path, "x".repeat(1 << 17)).unwrap();
        assert!(reader.read(at(3_000)).secret.unwrap_err().contains("too long"));
        std::fs::write(&path, "x").unwrap();
        assert!(reader.read(at(4_000)).secret.is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(reader.read(at(5_000)).is_lost);
        let variable = SecretReader::new(WebhookSecret::Variable("SERIN_TEST_NO_SUCH_VARIABLE".into()));
        let missing = variable.read(at(0)).secret.unwrap_err();
        assert_eq!(missing, "the variable SERIN_TEST_NO_SUCH_VARIABLE is not set");
    }
}
