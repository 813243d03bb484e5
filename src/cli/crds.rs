//! `serin crds`: the CustomResourceDefinitions.

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::print_result;

/// Flags of `serin crds`.
#[derive(Debug, clap::Args)]
pub struct CrdsArgs {}

/// Prints them as one YAML stream.
///
/// # Errors
/// If stdout cannot be written.
pub fn run(args: &CrdsArgs) -> Result<ExitStatus, Failure> {
    let CrdsArgs {} = args;
    print_result(&crate::api::crds::print())?;
    Ok(ExitStatus::Ok)
}
