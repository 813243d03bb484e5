//! What a site's git server does when somebody pushes.

use super::site::{REPOSITORY, Site};

impl Site {
    /// Installs a hook on the server, which runs in the folder of the repository.
    pub(crate) fn install_hook(&self, hook: &str, script: &str) {
        self.server.install_hook(REPOSITORY, hook, script);
    }

    /// Removes it.
    pub(crate) fn remove_hook(&self, hook: &str) {
        self.server.remove_hook(REPOSITORY, hook);
    }

    /// Whether a hook has left a file in the folder of the repository.
    pub(crate) fn has_server_file(&self, name: &str) -> bool {
        self.server.repository(REPOSITORY).join(name).exists()
    }

    /// Puts a file there, for a hook.
    pub(crate) fn write_server_file(&self, name: &str) {
        std::fs::write(self.server.repository(REPOSITORY).join(name), "").expect("a file");
    }
}
