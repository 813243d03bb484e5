//! All integration tests, one binary.

mod support;

mod support_works;
mod writeback_corpus;
mod writeback_message;
