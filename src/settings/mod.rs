//! From flags, environment and file to validated settings.
