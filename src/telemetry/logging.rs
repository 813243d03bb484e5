//! The log: text for people on a terminal, JSON for machines otherwise. It goes to stderr, because stdout
//! belongs to results.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::Arc;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::{LogFormat, LogLevel, LogSettings};

/// The log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The directives mean nothing.
    #[error("{directives:?} are no log directives")]
    Directives {
        /// What was given.
        directives: String,
        /// Why.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Something has started a log already.
    #[error("the log is started already")]
    Started(#[source] tracing_subscriber::util::TryInitError),
}

/// Starts the log of this process, on stderr.
///
/// # Errors
/// If the directives cannot be read, or a log was started before.
pub fn start_logging(settings: &LogSettings) -> Result<(), LogError> {
    let is_terminal = std::io::stderr().is_terminal();
    subscriber(settings, is_terminal, std::io::stderr)?.try_init().map_err(LogError::Started)
}

/// Starts the log of this process in a file, as lines for people unless `settings` ask for JSON.
///
/// # Errors
/// As [`start_logging`].
pub fn start_logging_to(settings: &LogSettings, file: File) -> Result<(), LogError> {
    let format = match settings.format {
        LogFormat::Auto | LogFormat::Text => LogFormat::Text,
        LogFormat::Json => LogFormat::Json,
    };
    let settings = LogSettings { format, ..settings.clone() };
    subscriber(&settings, false, Arc::new(file))?.try_init().map_err(LogError::Started)
}

/// The subscriber that writes to `writer` as `settings` say; `Auto` is decided by `is_terminal`.
pub(crate) fn subscriber<W>(
    settings: &LogSettings,
    is_terminal: bool,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(filter(&settings.level)?).with_writer(writer);
    let has_color = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Ok(match settings.format {
        LogFormat::Auto if is_terminal => Box::new(builder.with_target(false).with_ansi(has_color).finish()),
        LogFormat::Text => Box::new(builder.with_target(false).with_ansi(has_color).finish()),
        LogFormat::Auto | LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

/// A plain level is ours: libraries then say only what went wrong, since their debug output drowns ours.
fn filter(level: &LogLevel) -> Result<EnvFilter, LogError> {
    let directives = match level {
        LogLevel::Error => "error".to_owned(),
        LogLevel::Warn => "warn".to_owned(),
        LogLevel::Info => "warn,serin=info".to_owned(),
        LogLevel::Debug => "warn,serin=debug".to_owned(),
        LogLevel::Trace => "warn,serin=trace".to_owned(),
        LogLevel::Directives(directives) => directives.clone(),
    };
    EnvFilter::try_new(&directives).map_err(|source| LogError::Directives { directives, source })
}
