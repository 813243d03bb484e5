//! All integration tests, one binary.

mod support;

mod fault_search;

mod cluster_contract;
mod cluster_contract_real;
mod cluster_real;
mod git_mirror;
mod repository_contract;
mod crds;
mod support_works;
mod writeback_corpus;
mod workload;
mod writeback_message;

mod cli_help;
mod cli_settings;
mod cli_status;
mod cli_support;
