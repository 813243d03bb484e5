//! A cluster inside this process.
