//! The objects that an agent runs as: Deployments, Service, RBAC, ConfigMaps. Pure.
//!
//! What they must look like is a contract with images that are not ours (reference 1c to 1h): names, labels, ports,
//! environment and mounts are what the facade and the runtime read. Only fields that are meant are rendered, never
//! a default of the API server, so that the rendering can be compared with the live object field by field.
//!
//! Deliberately different from the reference operator:
//! * The candidate's pods get the candidate's tools, from a ConfigMap of their own, and whatever the candidate
//!   overrides is in its config hash, so that a changed override replaces the pods.
//! * The preStop hook is the kubelet's own sleep: the stock images have no shell.
//! * Tool credentials are mounted from the Secrets that the registry names; nothing copies them.
//! * The candidate's rendering does not depend on whether its values differ from the spec's, so that a
//!   promotion, which makes them equal, never restarts the pods that serve all traffic.
//!
//! Kept on purpose: both containers name their metrics port `metrics`, of which the API server warns. Scrapers find the
//! endpoints by that name on each container; another name would silently lose one of them.

mod access;
mod candidate_config;
mod clients;
mod config_hash;
mod container;
mod credential;
mod deployment;
mod effective;
mod environment;
mod error;
mod facades;
mod inputs;
mod json;
mod pod;
mod render;
mod service;
mod tools;
mod volumes;

pub use access::render_access;
pub use candidate_config::render_candidate_config;
pub use clients::{Client, Place, clients, peer_url, peers};
pub use config_hash::config_hash;
pub use credential::{credential_digest, credential_secret};
pub use deployment::render_deployment;
pub use effective::Effective;
pub use error::RenderError;
pub use facades::{Facades, ManagementPorts};
pub use inputs::{Inputs, ResolvedProvider, SessionApiToken, Track, WorkloadSettings, Workspace};
pub use render::{keys, render};
pub use service::render_service;
pub use tools::render_tools;

#[cfg(test)]
mod tests;
