//! From bytes in the repository to validated objects, each with the place it came from.
