//! The CustomResourceDefinitions, embedded from `deploy/crds/`: what `serin crds` prints and the loader
//! validates against.
