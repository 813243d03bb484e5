//! Input that is wrong: a clear error, nothing lost, the rest goes on, and memory stays bounded.
