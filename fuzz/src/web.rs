//! Of the web server, what reads one delivery.

#[path = "../../src/web/hook.rs"]
pub mod hook;
