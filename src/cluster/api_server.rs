//! A real API server.
