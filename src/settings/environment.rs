//! The few things that defaults depend on, read once, so that everything after it is a function of its
//! arguments.

use std::path::{Path, PathBuf};

/// What the process was started with, apart from its arguments and the `SERIN_*` variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `XDG_CACHE_HOME`.
    pub cache_home: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// The working folder: relative paths of flags and variables start here.
    pub current_dir: PathBuf,
    /// `RUST_LOG`.
    pub rust_log: Option<String>,
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            cache_home: variable("XDG_CACHE_HOME").map(PathBuf::from),
            home: variable("HOME").map(PathBuf::from),
            current_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            rust_log: variable("RUST_LOG").and_then(|value| value.into_string().ok()),
        }
    }

    /// Where mirrors go when nothing is said. A mirror is a cache (a lost one costs a fetch), hence the
    /// cache folder of the user; a container's user often has none, or `/`.
    pub fn default_mirror_dir(&self) -> PathBuf {
        let home = self.home.as_deref().filter(|home| home.is_absolute() && *home != Path::new("/"));
        match (self.cache_home.as_deref().filter(|cache| cache.is_absolute()), home) {
            (Some(cache), _) => cache.join("serin"),
            (None, Some(home)) => home.join(".cache/serin"),
            (None, None) => PathBuf::from("/var/cache/serin"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_go_to_the_cache_folder_of_the_user_or_of_the_machine() {
        let mut environment = Environment { current_dir: "/".into(), ..Environment::default() };
        assert_eq!(environment.default_mirror_dir(), Path::new("/var/cache/serin"));
        environment.home = Some("/".into());
        assert_eq!(environment.default_mirror_dir(), Path::new("/var/cache/serin"));
        environment.home = Some("/home/ann".into());
        assert_eq!(environment.default_mirror_dir(), Path::new("/home/ann/.cache/serin"));
        environment.cache_home = Some("/cache".into());
        assert_eq!(environment.default_mirror_dir(), Path::new("/cache/serin"));
    }
}
