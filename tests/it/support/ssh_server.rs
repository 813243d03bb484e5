//! A real `sshd` on loopback for the user who runs the tests, with host keys of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serin::git::Access;

use super::process::{self, Running};

/// The types of host key that the server has.
pub(crate) const HOST_KEYS: [&str; 3] = ["ed25519", "ecdsa", "rsa"];

/// Starts a server on `port` whose files are in `folder`.
pub(crate) fn start(port: u16, folder: &Path) -> Running {
    let keys = keys();
    let host_keys: String = HOST_KEYS.iter().map(|kind| format!("HostKey {}/host_{kind}\n", keys.display())).collect();
    let config = folder.join("sshd_config");
    let text = format!(
        "Port {port}\nListenAddress 127.0.0.1\n{host_keys}AuthorizedKeysFile {}/authorized_keys\nStrictModes no\n\
         UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nPidFile none\n\
         SetEnv GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null\n",
        keys.display()
    );
    std::fs::write(&config, text).expect("the configuration");
    // Where it runs as root, it insists on a folder for those whom it has not let in yet.
    let _ours = std::fs::create_dir_all("/run/sshd");
    let arguments = ["-D".into(), "-e".into(), "-f".into(), config.display().to_string()];
    let mut server = Running::start(Path::new("/usr/sbin/sshd"), &arguments, folder.join("sshd.log"));
    process::wait_for_port(port, &mut server);
    server
}

/// The user who runs the tests: the server lets nobody else in.
pub(crate) fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

/// What gets in, knowing all keys of the server at `port`.
pub(crate) fn access(port: u16) -> Access {
    let known_hosts = process::scratch("known-hosts").join("known_hosts");
    let lines: Vec<String> = HOST_KEYS.iter().map(|kind| known_line(kind, port)).collect();
    std::fs::write(&known_hosts, lines.concat()).expect("the known hosts");
    Access { private_key: Some(client_key("ed25519")), known_hosts: Some(known_hosts), ..Access::default() }
}

/// The line of `known_hosts` for one of the host keys.
pub(crate) fn known_line(kind: &str, port: u16) -> String {
    let public = std::fs::read_to_string(keys().join(format!("host_{kind}.pub"))).expect("a host key");
    let mut words = public.split(' ');
    let mut word = || words.next().expect("a public key");
    format!("[127.0.0.1]:{port} {} {}\n", word(), word())
}

/// The public half of a host key.
pub(crate) fn host_key(kind: &str) -> PathBuf {
    keys().join(format!("host_{kind}.pub"))
}

/// The private key of a user: `ed25519`, `ecdsa`, `rsa`, `pem` (RSA in the old format), `locked` (its passphrase is
/// [`PASSPHRASE`]), or `stranger`, which the server does not take.
pub(crate) fn client_key(name: &str) -> PathBuf {
    keys().join(format!("client_{name}"))
}

/// The passphrase of the key `locked`.
pub(crate) const PASSPHRASE: &str = "open sesame";

/// All keys, made once: RSA keys take a while.
fn keys() -> &'static Path {
    static KEYS: OnceLock<PathBuf> = OnceLock::new();
    KEYS.get_or_init(|| {
        let folder = process::scratch("ssh-keys");
        let make = |name: &str, kind: &str, passphrase: &str, more: &[&str]| {
            let file = folder.join(name);
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", kind, "-N", passphrase, "-C", name, "-f"]).arg(&file).args(more);
            assert!(command.status().expect("ssh-keygen").success());
            std::fs::read_to_string(file.with_extension("pub")).expect("a public key")
        };
        for kind in HOST_KEYS {
            make(&format!("host_{kind}"), kind, "", &[]);
        }
        make("client_stranger", "ed25519", "", &[]);
        let authorized = [
            make("client_ed25519", "ed25519", "", &[]),
            make("client_ecdsa", "ecdsa", "", &[]),
            make("client_rsa", "rsa", "", &[]),
            make("client_pem", "rsa", "", &["-m", "PEM"]),
            make("client_locked", "ed25519", PASSPHRASE, &[]),
        ];
        std::fs::write(folder.join("authorized_keys"), authorized.concat()).expect("the authorized keys");
        folder
    })
}
