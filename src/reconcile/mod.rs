//! The shell: observes, lets the pure modules decide, performs what they say. Decides nothing.
