//! Desired against live: field ownership, what differs, what a sync has to do. Pure.
