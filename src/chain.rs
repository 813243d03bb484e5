//! The one way to print an error with everything that caused it.
//!
//! Our errors do not print their source, so that the chain can be printed without saying anything twice.

use std::error::Error;
use std::fmt;

/// Displays an error and its sources: `what failed: why: and why that`.
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            let text = error.to_string();
            // Some libraries print their source themselves.
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            source = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the mirror")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("the disk is gone: {0}")]
    struct Middle(#[source] std::io::Error);

    #[test]
    fn a_chain_says_everything_once() {
        let error = Outer(Middle(std::io::Error::other("no such device")));
        assert_eq!(Chain(&error).to_string(), "cannot read the mirror: the disk is gone: no such device");
    }
}
