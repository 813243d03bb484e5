//! The CustomResourceDefinitions, embedded from `deploy/crds/`: what `serin crds` prints.
//!
//! One text for people who apply the files and for people who pipe the command, so that the two can never
//! differ from what the binary was built and tested with.

/// The CRDs by file name, in the order in which they are applied.
pub fn all() -> [(&'static str, &'static str); 3] {
    [
        ("agentruntimes.yaml", include_str!("../../deploy/crds/agentruntimes.yaml")),
        ("promptpacks.yaml", include_str!("../../deploy/crds/promptpacks.yaml")),
        ("rolloutanalyses.yaml", include_str!("../../deploy/crds/rolloutanalyses.yaml")),
    ]
}

/// All CRDs as one YAML stream, ready for `kubectl apply -f -`.
pub fn print() -> String {
    all().map(|(_, text)| text).join("---\n")
}
