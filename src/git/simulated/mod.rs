//! A repository inside this process.
