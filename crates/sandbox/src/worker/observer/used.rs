//! The network and the caches that a command uses.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use nix::{libc, unistd::Pid};

use super::{
    address::Address,
    calls::{Access, Call},
    registers::Registers,
    tracee::Tracee,
};
use crate::{
    wire::refusal::{MAX_PORTS, NewsKind},
    worker::HOME,
};

/// Most sockets whose types are remembered.
const MAX_SOCKETS: usize = 1024;

/// Bits of the type of a socket; the others are flags.
const KIND: i32 = 0xf;

/// Directories in HOME that tools keep downloads in, and the variables that move them.
const CACHES: [(&str, &str); 8] = [
    (".cache/helm", "HELM_CACHE_HOME"),
    (".cache/helmfile", "HELMFILE_CACHE_HOME"),
    (".cache/cue", "CUE_CACHE_DIR"),
    (".cache/go-build", "GOCACHE"),
    ("go/pkg/mod", "GOMODCACHE"),
    (".npm", "npm_config_cache"),
    (".cache/deno", "DENO_DIR"),
    (".cache/pip", "PIP_CACHE_DIR"),
];

/// The use so far.
#[derive(Debug)]
pub(super) struct Used {
    home: PathBuf,
    /// Sockets of processes for TCP.
    streams: BTreeSet<(Pid, i32)>,
    ports: BTreeSet<u16>,
    is_online: bool,
    /// Variables of caches that were told.
    caches: BTreeSet<&'static str>,
}

impl Used {
    pub(super) fn new(workspace: &Path) -> Self {
        Self {
            home: workspace.join(HOME),
            streams: BTreeSet::new(),
            ports: BTreeSet::new(),
            is_online: false,
            caches: BTreeSet::new(),
        }
    }

    /// News of a call that was not refused.
    pub(super) fn by(&mut self, tracee: Tracee, call: Call, end: Registers) -> Option<NewsKind> {
        match call {
            Call::Socket { family: libc::AF_INET | libc::AF_INET6, kind } => {
                let socket = (tracee.process(), end.descriptor()?);
                // The number of a closed socket may be another kind of socket now.
                self.streams.remove(&socket);
                if kind & KIND == libc::SOCK_STREAM && self.streams.len() < MAX_SOCKETS {
                    self.streams.insert(socket);
                }
                let is_known = std::mem::replace(&mut self.is_online, true);
                (!is_known).then_some(NewsKind::IsOnline(true))
            }
            Call::Connect { socket, address, length } => {
                self.streams.get(&(tracee.process(), socket))?;
                let Address::Port(port) = Address::read(tracee, address, length)? else {
                    return None;
                };
                let is_new = self.ports.len() < MAX_PORTS && self.ports.insert(port);
                is_new.then_some(NewsKind::Connects(port.into()))
            }
            Call::Path { at, access: Access::Write } if end.error().is_none() => {
                let path = PathBuf::from(tracee.path(at)?);
                let path = path.strip_prefix(&self.home).ok()?;
                let (_, variable) =
                    CACHES.into_iter().find(|(cache, _)| path.starts_with(cache))?;
                self.caches.insert(variable).then(|| NewsKind::Caches(variable.to_owned()))
            }
            Call::Path { .. } | Call::Bind { .. } | Call::Socket { .. } | Call::Limited(_) => None,
        }
    }
}
