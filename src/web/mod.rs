//! What the daemon says about itself over HTTP (`/metrics`, `/healthz`, `/readyz`), and what git hosts say to it
//! (`/hooks/<source>`). Nothing here changes anything: a hook wakes a fetch, which would come anyway.

mod health;
pub mod hook;
#[cfg(test)]
mod hook_tests;
mod hooks;
#[cfg(test)]
mod hooks_tests;
mod patient;
mod secret;
mod server;
#[cfg(test)]
mod tests;

pub use health::{Check, Health};
pub use hooks::{HookTarget, HookedSource, Hooks};
pub use server::{BindError, Server};
