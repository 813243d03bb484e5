//! What Serin says back in git: decision commits and the status branch. Pure.
