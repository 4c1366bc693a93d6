//! The targets of the attacks.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that a tenant must not reach. Attacks are given all names, because
/// keeping names secret is no protection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Targets {
    /// PID of the process that talks to the network.
    pub(crate) supervisor: i32,
    /// PID of the privileged process.
    pub(crate) spawner: i32,
    /// PID of another tenant's command.
    pub(crate) victim: i32,
    /// UID of the victim.
    pub(crate) victim_uid: u32,
    /// Workspace of the victim, with a file `repo/treasure`.
    pub(crate) victim_workspace: PathBuf,
    /// The victim's sockets: a path and an abstract name.
    pub(crate) victim_socket: PathBuf,
    pub(crate) victim_name: String,
    /// Parent directory of all workspaces.
    pub(crate) root: PathBuf,
    /// A kept failed request of another tenant, in the directory of bundles.
    pub(crate) bundle: PathBuf,
    /// Files with mode 0600, owned by root and by the supervisor's UID.
    pub(crate) root_secret: PathBuf,
    pub(crate) own_secret: PathBuf,
    /// A file of the supervisor's group with mode 0440.
    pub(crate) granted: PathBuf,
    /// Files with mode 0644: a mounted secret, a service account's token.
    pub(crate) world_secret: PathBuf,
    pub(crate) token: PathBuf,
    pub(crate) plugins_dir: PathBuf,
    pub(crate) definition: PathBuf,
    pub(crate) socket_dir: PathBuf,
    /// Another plugin's socket.
    pub(crate) plugin_socket: PathBuf,
    /// A directory with mode 1777, and a socket with mode 0777 in it.
    pub(crate) open_dir: PathBuf,
    pub(crate) open_socket: PathBuf,
    /// A file with mode 0666.
    pub(crate) open_file: PathBuf,
    /// A socket with mode 0660, and one in a directory with mode 0700.
    pub(crate) closed_socket: PathBuf,
    pub(crate) hidden_socket: PathBuf,
    /// A socket for datagrams with mode 0666.
    pub(crate) datagram_socket: PathBuf,
    /// Name of an abstract socket, which has no path.
    pub(crate) abstract_name: String,
    /// The supervisor's metrics port, another server's port, and the port that
    /// `--network` allows.
    pub(crate) metrics_port: u16,
    pub(crate) closed_port: u16,
    pub(crate) allowed_port: u16,
    /// UDP port of a server of the test.
    pub(crate) udp_port: u16,
    /// Copy of this program, owned by root and with the set-user-ID bit.
    pub(crate) setuid: PathBuf,
}
