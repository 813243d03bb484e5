//! What an operator can see: log lines and metrics, one struct per event.
