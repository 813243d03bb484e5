//! What the daemon says about itself over HTTP: `/metrics`, `/healthz`, `/readyz`. Nothing here decides
//! or changes anything.

mod health;
mod server;
#[cfg(test)]
mod tests;

pub use health::{Check, Health};
pub use server::{BindError, Server};
