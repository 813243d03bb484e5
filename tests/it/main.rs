//! All integration tests, one binary.

mod support;

mod support_works;
