//! A real repository, through a bare mirror on this machine.
