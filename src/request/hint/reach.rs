//! Paths and ports that the sandbox lets a command reach, and the keys that open
//! others.

mod leads;
mod replaced;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cmp_sandbox::{
    Attempt, Bounds, CleanPath, Closing, Network, Readable, Refusal, SCRATCH_PATHS, Sight,
    home_above, look,
};

use super::{
    advice::{Advice, Opening},
    denial::{Denial, denials},
    read_only::READ_ONLY,
    tier::UNIX_SOCKETS,
};
use crate::{
    programs::{TEMPORARY, replaced::Decided},
    volume::FileThread,
};

/// The directory that also holds shared memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Places that a command can write to.
const WRITABLE: &str =
    "it can write only to its repository, $HOME, $TMPDIR and spec.sandbox.caches";

/// Words of programs that could not rename or link a file (EXDEV).
const MOVE_REFUSED: [&str; 2] = ["cross-device link", "EXDEV"];

const MOVE: &str = "this node's kernel has the first version of Landlock, under which no file can be \
                    renamed or linked to another directory: use Linux 5.19 or newer, or copy the file \
                    and remove it, as mv does";

/// Longest wait for the look at a path of another request, which usually takes microseconds.
const TURN: Duration = Duration::from_millis(250);

/// Paths and ports that the sandbox in use lets commands reach.
#[derive(Debug, Default)]
pub struct Reach {
    /// The paths that they may read; `None` if the sandbox closes no paths.
    pub readable: Option<Readable>,
    /// The sandbox refuses TCP ports.
    pub filters_ports: bool,
    /// The sandbox refuses to rename and link files between directories.
    pub refuses_moves: bool,
    /// Closed paths do not exist for commands, instead of being refused.
    pub hides_closed: bool,
    /// The `PATH` of commands.
    pub search: Vec<u8>,
    /// The directory of the sockets; empty if it is not known.
    pub sockets: PathBuf,
}

impl Reach {
    /// The first of these paths that would expose what no plugin may read. This accesses
    /// the paths.
    pub(crate) fn exposing(&self, paths: &[PathBuf]) -> Option<PathBuf> {
        let readable = self.readable.as_ref()?;
        paths.iter().find(|path| readable.closing(path) == Closing::Always).cloned()
    }

    /// A sentence about the first thing in a text that the sandbox refused, with the
    /// key that opens it. Ports come first: programs often probe files in vain.
    pub(super) fn refusal(&self, bounds: &Bounds, text: &str) -> Option<String> {
        let denials = denials(text);
        let certain = self.first_port(bounds, &denials).or_else(|| self.move_refused(text));
        certain.or_else(|| self.first_path(bounds, &denials, None))
    }

    /// Like [`Self::refusal`] for a command whose access was decided at this time, with paths
    /// from a thread, because a command can name a path whose storage does not answer. There
    /// is no sentence then, and none about other paths meanwhile.
    pub(in crate::request) fn refusal_in_time(
        self: &Arc<Self>,
        (bounds, decided): (&Bounds, Option<Decided>),
        text: &str,
        thread: &FileThread,
    ) -> impl Future<Output = Option<String>> + Send + use<> {
        let denials = denials(text);
        let certain = self.first_port(bounds, &denials).or_else(|| self.move_refused(text));
        let is_answered = certain.is_some() || denials.is_empty();
        let look = (!is_answered).then(|| (Arc::clone(self), bounds.clone(), thread.clone()));
        async move {
            let Some((reach, bounds, thread)) = look else { return certain };
            thread
                .run_after(TURN, move || reach.first_path(&bounds, &denials, decided))
                .await
                .ok()
                .flatten()
        }
    }

    /// A sentence about a file that could not change its directory (EXDEV).
    fn move_refused(&self, text: &str) -> Option<String> {
        let says = |words: &&str| text.contains(words);
        let is_refused = self.refuses_moves && MOVE_REFUSED.iter().any(says);
        is_refused.then(|| MOVE.to_owned())
    }

    fn first_port(&self, bounds: &Bounds, denials: &[Denial]) -> Option<String> {
        let port = denials.iter().find_map(|denial| self.port_advice(&bounds.network, denial));
        port.map(|advice| advice.text)
    }

    fn first_path(
        &self,
        bounds: &Bounds,
        denials: &[Denial],
        decided: Option<Decided>,
    ) -> Option<String> {
        let mut shared = denials.iter().filter(|denial| !self.is_private(bounds, denial));
        let advice = shared.find_map(|denial| {
            let replaced = decided.and_then(|decided| self.replaced(bounds, denial, decided));
            let sockets = || self.sockets_advice(denial);
            replaced.or_else(sockets).or_else(|| self.path_advice(bounds, denial))
        });
        advice.map(|advice| advice.text)
    }

    /// The advice about an observed refusal; `None` if the sandbox has no part in it.
    /// This accesses the path.
    pub(in crate::request) fn advise(&self, bounds: &Bounds, refusal: &Refusal) -> Option<Advice> {
        match &refusal.attempt {
            Attempt::Connect(port) => {
                let denial = Denial::Connect { port: Some(*port), is_certain: true };
                self.port_advice(&bounds.network, &denial)
            }
            Attempt::Listen(_) => self.port_advice(&bounds.network, &Denial::Listen),
            Attempt::Internet => Some(Advice::only(
                "it has no network: name its TCP ports in spec.sandbox.network, for example 443",
            )),
            Attempt::Limit(_) => None,
            Attempt::UnixSocket => Some(Advice::only(UNIX_SOCKETS)),
            Attempt::SocketFile(path)
            | Attempt::Read(path)
            | Attempt::Execute(path)
            | Attempt::Write(path) => {
                self.advise_on_path(bounds, refusal, CleanPath::new(Path::new(path))?)
            }
        }
    }

    fn advise_on_path(
        &self,
        bounds: &Bounds,
        refusal: &Refusal,
        path: CleanPath,
    ) -> Option<Advice> {
        let is_own = self.is_own(&path);
        let denial = match &refusal.attempt {
            Attempt::SocketFile(_) => Denial::Socket(path),
            Attempt::Read(_) | Attempt::Execute(_) if refusal.is_absence() => {
                return self.advice_for_absent(bounds, &path);
            }
            Attempt::Execute(_) | Attempt::Read(_) if self.is_at_sockets(&path) => {
                return self.sockets_advice(&Denial::Path(path));
            }
            Attempt::Execute(_) if is_own => {
                return Some(Advice::only(
                    "files of the repository are not executable: set spec.preserveFileMode, or name \
                     the interpreter",
                ));
            }
            Attempt::Write(_) if bounds.is_read_only && is_own => {
                return Some(Advice::only(READ_ONLY));
            }
            Attempt::Read(_) | Attempt::Write(_) if is_own => {
                let text = format!("the sandbox closes `{path}`, and no key opens it");
                return Some(Advice::only(text));
            }
            Attempt::Write(_) => Denial::Write(path),
            Attempt::Read(_) | Attempt::Execute(_) if refusal.is_write_protected() => {
                Denial::Write(path)
            }
            Attempt::Read(_) | Attempt::Execute(_) => Denial::Path(path),
            Attempt::Connect(_)
            | Attempt::Listen(_)
            | Attempt::Internet
            | Attempt::Limit(_)
            | Attempt::UnixSocket => return None,
        };
        self.path_advice(bounds, &denial)
    }

    /// The advice about a file that is missing in the sandbox, if it may exist outside.
    /// `render --observe` looks again, with more rights.
    fn advice_for_absent(&self, bounds: &Bounds, path: &CleanPath) -> Option<Advice> {
        let exists = self.readable.as_ref().is_some_and(|readable| readable.may_exist(path));
        let absent = || self.path_advice(bounds, &Denial::Absent(path.clone()));
        let closed = || self.path_advice(bounds, &Denial::Path(path.clone()));
        if exists { absent().or_else(closed) } else { None }
    }

    /// True for a path in a directory for temporary files that is the request's own. A look
    /// at the container's would tell the command if the path exists there.
    fn is_private(&self, bounds: &Bounds, denial: &Denial) -> bool {
        let (Denial::Path(path) | Denial::Write(path) | Denial::Create(path)) = denial else {
            return false;
        };
        let is_named = bounds.readable().any(|named| path.starts_with(named));
        self.hides_closed && is_temporary(path) && !is_named
    }

    fn is_own(&self, path: &Path) -> bool {
        self.readable.as_ref().is_some_and(|readable| readable.is_own(path))
    }

    /// True for a path in the directory of the sockets.
    fn is_at_sockets(&self, path: &Path) -> bool {
        !self.sockets.as_os_str().is_empty() && path.starts_with(&self.sockets)
    }

    /// The advice about a program or a file that a sidecar had beside its socket.
    fn sockets_advice(&self, denial: &Denial) -> Option<Advice> {
        let (Denial::Path(path) | Denial::Absent(path)) = denial else { return None };
        (self.readable.is_some() && self.is_at_sockets(path)).then(|| {
            Advice::only(format!(
                "the sandbox closes `{path}`, because it is in the directory of the sockets, and no \
                 key opens it: put programs and files into another directory, such as /opt"
            ))
        })
    }

    fn port_advice(&self, network: &Network, denial: &Denial) -> Option<Advice> {
        let allowed = match network {
            Network::Any => return None,
            Network::None => &[][..],
            Network::Ports(ports) => ports,
        };
        let may = match allowed {
            [] => "it has no network".to_owned(),
            ports => {
                let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
                format!("it may connect to ports {}", ports.join(", "))
            }
        };
        match denial {
            _ if !self.filters_ports => None,
            Denial::Listen => Some(Advice::by(
                Opening::AnyPort,
                "the sandbox does not let it listen on TCP ports: spec.sandbox.network: any allows it"
                    .to_owned(),
            )),
            Denial::Connect { port: Some(port), .. } if allowed.contains(port) => None,
            Denial::Connect { port: Some(port), .. } => Some(Advice::by(
                Opening::Port(*port),
                format!(
                    "the sandbox refuses TCP port {port}: {may}: add {port} to \
                     spec.sandbox.network or --network"
                ),
            )),
            Denial::Connect { port: None, is_certain: true } => Some(Advice::only(format!(
                "the sandbox refuses TCP ports: {may}: see spec.sandbox.network and --network"
            ))),
            Denial::Connect { .. }
            | Denial::Socket(_)
            | Denial::Path(_)
            | Denial::Write(_)
            | Denial::Absent(_)
            | Denial::Create(_)
            | Denial::Program(_) => None,
        }
    }

    fn path_advice(&self, bounds: &Bounds, denial: &Denial) -> Option<Advice> {
        let readable = self.readable.as_ref()?;
        let is_named = |path: &Path| bounds.readable().any(|named| path.starts_with(named));
        if let Some(advice) = self.leads(bounds, denial) {
            return Some(advice);
        }
        match denial {
            Denial::Socket(path) => (!readable.is_own(path)).then(|| {
                Advice::only(format!("the sandbox closes the socket `{path}`, and no key opens it"))
            }),
            Denial::Path(path) | Denial::Write(path) | Denial::Create(path)
                if readable.is_own(path) =>
            {
                None
            }
            Denial::Path(path) if is_named(path) || readable.is_open(path) => {
                Some(Advice::only(format!(
                    "the sandbox allows reading `{path}` as far as the file's mode does, and not \
                     changing it: {WRITABLE}"
                )))
            }
            Denial::Path(path) => Some(self.advice_for_closed(readable, path)),
            Denial::Write(path) => {
                let rest = self.instead(path);
                Some(Advice::only(format!("the sandbox write-protects `{path}`: {rest}")))
            }
            Denial::Create(path) => {
                let rest = self.instead(path);
                Some(Advice::only(format!("no request can create `{path}`: {rest}")))
            }
            Denial::Absent(path) if !is_named(path) => self.advice_for_hidden(readable, path),
            Denial::Absent(_) | Denial::Connect { .. } | Denial::Listen | Denial::Program(_) => {
                None
            }
        }
    }

    /// The advice about a closed path. It depends on what everybody can see there, and in
    /// namespaces not even on that: commands would learn from it what exists.
    fn advice_for_closed(&self, readable: &Readable, path: &CleanPath) -> Advice {
        let rest = self.instead(path);
        let sight = if self.hides_closed { Sight::Unseen } else { look(path, |_| true) };
        // A path to read must exist, in each later request too, so not one to be created.
        let (real, is_new) = match &sight {
            Sight::Found(place) => (place.path(), false),
            Sight::Absent => (path, true),
            Sight::Beyond(_) | Sight::Unseen => (path, false),
        };
        match readable.closing_of(path, real) {
            Closing::Key if is_new => Advice::only(format!("the sandbox closes `{path}`: {rest}")),
            Closing::Key => Advice::by(
                Opening::Read(path.to_string()),
                format!(
                    "the sandbox closes `{path}`: to let it read that, add {path} to \
                     spec.sandbox.read or --read; {rest}"
                ),
            ),
            Closing::Token => Advice::only(format!(
                "the sandbox closes `{path}`, a token of the Pod: spec.sandbox.read can name it, \
                 but everybody who can change a rendered repository could then take and use it"
            )),
            Closing::Always => {
                let rest = if is_temporary(path) { format!("; {rest}") } else { String::new() };
                Advice::only(format!("the sandbox closes `{path}`, and no key opens it{rest}"))
            }
        }
    }

    /// The places that a command can write to instead of a path. Programs of others can have the
    /// path in their code.
    fn instead(&self, path: &Path) -> String {
        if !is_temporary(path) {
            return WRITABLE.to_owned();
        }
        let tier = if self.hides_closed {
            ""
        } else if path.starts_with(SHARED_MEMORY) {
            "; shared memory, as of Python's multiprocessing, needs --isolation namespaces"
        } else if SCRATCH_PATHS.iter().any(|private| path.starts_with(private)) {
            ", or a supervisor with --isolation namespaces, where each command has its own /tmp"
        } else {
            ""
        };
        format!("for temporary files, use $TMPDIR{tier}")
    }

    /// The advice about a path that is not there, if that may be because of the sandbox.
    /// This does not access the path: commands would learn from the error whether it exists.
    fn advice_for_hidden(&self, readable: &Readable, path: &CleanPath) -> Option<Advice> {
        let what = if let Some(mount) = readable.closed_mount(path) {
            format!("the mount {}: to let it read `{path}`", mount.display())
        } else {
            let home = closed_home(readable, path).filter(|_| self.hides_closed)?;
            format!("{home}: if `{path}` is in the image and it needs that")
        };
        let key = Opening::Read(path.to_string());
        let advice = format!("the sandbox hides {what}, add {path} to spec.sandbox.read or --read");
        Some(Advice::by(key, advice))
    }
}

fn is_temporary(path: &Path) -> bool {
    TEMPORARY.iter().any(|shared| path.starts_with(shared))
}

/// The closed directory of the image that holds a path.
fn closed_home(readable: &Readable, path: &Path) -> Option<&'static str> {
    let home = home_above(path)?;
    (!readable.is_open(path) && !readable.is_own(path)).then_some(home)
}

#[cfg(test)]
mod tests;
