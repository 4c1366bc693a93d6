//! Whom to attack.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything a tenant must not reach, told to it plainly: secrecy of names is
/// no protection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Targets {
    /// The process that talks to the network.
    pub(crate) supervisor: i32,
    /// The process with the privilege.
    pub(crate) spawner: i32,
    /// Another tenant's command.
    pub(crate) victim: i32,
    /// Its user.
    pub(crate) victim_uid: u32,
    /// Its workspace, with a file `repo/treasure`.
    pub(crate) victim_workspace: PathBuf,
    /// Sockets of its own, by path and by name.
    pub(crate) victim_socket: PathBuf,
    pub(crate) victim_name: String,
    /// Where all workspaces are.
    pub(crate) root: PathBuf,
    /// Files with mode 0600 of root's and of the supervisor's.
    pub(crate) root_secret: PathBuf,
    pub(crate) own_secret: PathBuf,
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
    /// A socket with mode 0660, and one in a directory with mode 0700.
    pub(crate) closed_socket: PathBuf,
    pub(crate) hidden_socket: PathBuf,
    /// A socket for datagrams with mode 0666.
    pub(crate) datagram_socket: PathBuf,
    /// A socket that has a name and no path.
    pub(crate) abstract_name: String,
    /// The supervisor's metrics, something else's port, and one that is allowed.
    pub(crate) metrics_port: u16,
    pub(crate) closed_port: u16,
    pub(crate) allowed_port: u16,
    /// Somebody's port for datagrams.
    pub(crate) udp_port: u16,
    /// This program with root's set-user-ID bit.
    pub(crate) setuid: PathBuf,
}
