//! Webhooks: what git hosts, and others, have said.

use tracing::{debug, info, warn};

use crate::ids::SourceName;
use crate::telemetry::{HookResult, Metrics};

/// A delivery of a webhook was answered.
pub struct HookReceived<'a> {
    /// The source it was for; `None`: there is none of that name that has a webhook.
    pub source: Option<&'a SourceName>,
    /// What became of it.
    pub result: HookResult,
    /// Whether this source refuses for the first time since it accepted one: a secret that differs on the two sides should
    /// be seen, and strangers must not fill the log.
    pub is_news: bool,
}

impl HookReceived<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Self { source, result, is_news } = self;
        metrics.sync.hook_received(source, result);
        let Some(source) = source else {
            debug!(result = result.as_str(), "a delivery came for a webhook that is not there");
            return;
        };
        match result {
            HookResult::Accepted => info!(%source, "a webhook asks for a fetch"),
            HookResult::Ping => info!(%source, "a webhook says that it is set up"),
            HookResult::Refused if is_news => {
                warn!(%source, "a delivery is not signed with the secret of this source; more of them are only counted");
            }
            HookResult::Known
            | HookResult::NotFollowed
            | HookResult::Refused
            | HookResult::TooLarge
            | HookResult::TooSlow
            | HookResult::Busy => debug!(%source, result = result.as_str(), "a delivery came"),
        }
    }
}

/// The secret of a webhook cannot be read. Once, until it can.
pub struct HookSecretMissing<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// Why; without the secret.
    pub why: &'a str,
}

impl HookSecretMissing<'_> {
    /// Logs it.
    pub fn emit(self, _: &Metrics) {
        let Self { source, why } = self;
        warn!(%source, why, "there is no secret for the webhook: its deliveries are refused until there is");
    }
}
