//! Digests of the credentials of Providers, for the config hash of the pods that use them.
//!
//! Secrets with the label of credentials are watched: a new one is noticed at once. Others are read one by one and
//! kept for a while, so that a pass in a row of passes costs no request.
//!
//! A digest that is missing for a moment would replace every pod, twice. So a read that fails is answered from what is
//! known, and where nothing is known the pass fails and is tried again. Only a Secret that is not there, or that Serin
//! is not allowed to read, counts as none (reference 1c).

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::cluster::ClusterError;
use crate::ids::Digest;
use crate::object::{Object, ObjectKey};
use crate::reconcile::{Core, PassError};
use crate::telemetry::event;
use crate::workload;

/// How long an unlabelled Secret is taken for unchanged. Below the interval at which everything is looked at anyway, so
/// that each of those looks reads it anew; long enough that a rollout with a pass every second reads it once.
const KEPT: SignedDuration = SignedDuration::from_secs(300);

/// What is known of a Secret.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Its content; `None`: there is none to be had.
    digest: Option<Digest>,
    read_at: Timestamp,
}

impl Core {
    /// The digests of the credentials of `providers`, by Secret.
    pub(super) async fn credentials(
        &self,
        providers: &[Arc<Object>],
    ) -> Result<BTreeMap<ObjectKey, Digest>, PassError> {
        let mut digests = BTreeMap::new();
        for secret in providers.iter().filter_map(|provider| workload::credential_secret(provider)) {
            if let Some(digest) = self.credential(&secret).await? {
                digests.insert(secret, digest);
            }
        }
        Ok(digests)
    }

    async fn credential(&self, secret: &ObjectKey) -> Result<Option<Digest>, PassError> {
        // From the watch, if it is labelled.
        if let Ok(Some(seen)) = self.cluster.get(secret).await {
            return Ok(self.keep_credential(secret, Some(workload::credential_digest(&seen))));
        }
        let known = self.known_credentials().get(secret).cloned();
        let now = self.clock.now();
        // A clock that was set back must not keep an old one for long.
        if let Some(Known { digest, .. }) =
            known.as_ref().filter(|known| known.read_at <= now && now.duration_since(known.read_at) < KEPT)
        {
            return Ok(digest.clone());
        }
        match self.cluster.look(secret).await {
            Ok(found) => Ok(self.keep_credential(secret, found.map(|found| workload::credential_digest(&found)))),
            Err(error @ (ClusterError::Forbidden { .. } | ClusterError::NotServed { .. })) => {
                if known.is_none() {
                    event::CredentialUnreadable { secret, error: &error }.emit(&self.metrics);
                }
                Ok(self.keep_credential(secret, known.and_then(|known| known.digest)))
            }
            Err(error) => match known {
                Some(known) => Ok(known.digest),
                None => Err(error.into()),
            },
        }
    }

    fn keep_credential(&self, secret: &ObjectKey, digest: Option<Digest>) -> Option<Digest> {
        let known = Known { digest: digest.clone(), read_at: self.clock.now() };
        self.known_credentials().insert(secret.clone(), known);
        digest
    }

    fn known_credentials(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Known>> {
        // What is in it is true or missing, whoever panicked.
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
