//! All integration tests, one binary.

#![expect(clippy::unwrap_used, reason = "a test whose ground is missing fails, and says where")]

mod support;

mod fault_search;

mod cluster_contract;
mod cluster_contract_real;
mod cluster_alike;
mod cluster_real;
mod git_https;
mod git_mirror;
mod git_ssh;
mod repository_contract;
mod crds;
mod faults_admission;
mod faults_api;
mod faults_disk;
mod faults_git;
mod faults_outage;
mod faults_plane;
mod faults_kill;
mod faults_lease;
mod faults_rights;
mod faults_rivals;
mod e2e_by_hand;
mod e2e_daemon;
mod e2e_hooks;
mod e2e_measured;
mod e2e_names;
mod e2e_promotion;
mod e2e_requests;
mod e2e_restart;
mod e2e_rollback;
mod e2e_sources;
mod e2e_sync;
mod support_works;
mod writeback_corpus;
mod workload;
mod writeback_message;

mod cli_diff;
mod cli_check;
mod cli_help;
mod cli_settings;
mod cli_status;
mod cli_status_agent;
mod cli_support;
mod cli_watch;
mod daemon;
mod demo;

mod bad_input;
mod bad_input_cluster;
mod fuzz_corpus;

mod architecture;
mod deploy;
mod examples;
