//! The daemon's own HTTP endpoints: `/metrics`, `/healthz`, `/readyz`.
