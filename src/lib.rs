//! Serin: GitOps rollouts for AI agents on Kubernetes.

pub mod ids;
pub mod object;

pub mod git;
pub mod manifest;
pub mod api;
pub mod cluster;
pub mod apply;
pub mod workload;
pub mod rollout;
pub mod writeback;
pub mod reconcile;

pub mod clock;
pub mod settings;
pub mod telemetry;
pub mod web;
pub mod cli;
