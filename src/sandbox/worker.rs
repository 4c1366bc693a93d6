//! The process that has a tenant's identity, and handles what is the tenant's.
//!
//! A worker is a child of the spawner and does one job: it unpacks an archive,
//! or it becomes a command of the plugin. It first gives up everything a tenant
//! must not have, in an order in which each step still has the right it needs,
//! and only then reads its plan.

mod environment;
mod identity;
mod lookup;
pub(super) mod remove;
mod run;
mod tree;
mod unpack;

use std::{
    convert::Infallible,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};

use nix::{errno::Errno, unistd::Uid};

use super::plan::{self, Answer, Failed, Plan, Reply, Task, Unpacked};

/// Who a worker works for.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// The leased user; `None` where everybody is the same one.
    pub(super) user: Option<Uid>,
    /// Name of the request's directory.
    pub(super) workspace: String,
    /// Where that directory is.
    pub(super) root: PathBuf,
}

/// The directories a request has to itself, by their names in its workspace.
pub(super) const REPOSITORY: &str = "repo";
pub(super) const HOME: &str = "home";
pub(super) const TEMPORARY: &str = "tmp";

/// Why a job could not be done.
#[derive(Debug)]
enum Trouble {
    /// A step of confining or arranging failed: nothing of the tenant ran.
    Step { step: &'static str, error: io::Error },
    /// The program is not there or does not start: the plugin's mistake.
    Command(String),
    /// The archive is not acceptable.
    Refused(String),
}

/// Runs in a child of the spawner. Returns only when there is no command to become.
pub(super) fn main(tenant: &Tenant, root: &OwnedFd, socket: OwnedFd, run: bool) -> i32 {
    let mut socket = UnixStream::from(socket);
    let outcome = identity::assume(tenant, root, !run)
        .and_then(|workspace| work(&workspace, tenant, &mut socket, run));
    let answer = match outcome {
        Ok(unpacked) => Answer::Unpacked(unpacked),
        Err(trouble) => trouble.into(),
    };
    let told = socket.write_all(&plan::frame(&Reply { answer: Some(answer) }));
    i32::from(told.is_err())
}

fn work(
    workspace: &OwnedFd,
    tenant: &Tenant,
    socket: &mut UnixStream,
    run: bool,
) -> Result<Unpacked, Trouble> {
    let plan: Plan = plan::read(socket).map_err(step("read the plan"))?;
    match plan.task {
        Some(Task::Unpack(task)) if !run => unpack::unpack(workspace.as_fd(), task, socket),
        Some(Task::Run(task)) if run => {
            let never: Infallible = run::become_command(workspace.as_fd(), tenant, &task, socket)?;
            match never {}
        }
        Some(Task::Unpack(_) | Task::Run(_)) | None => {
            Err(Trouble::Refused("the plan is not for this kind of worker".to_owned()))
        }
    }
}

impl Tenant {
    /// The absolute path of a directory in the workspace.
    fn directory(&self, name: &str) -> PathBuf {
        self.root.join(&self.workspace).join(Path::new(name))
    }
}

impl From<Trouble> for Answer {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(text) => Self::Refused(text),
            Trouble::Command(text) => Self::Failed(Failed { step: text, errno: 0, command: true }),
            Trouble::Step { step, error } => {
                let errno = error.raw_os_error().unwrap_or_default();
                let step = format!("{step}: {error}");
                Self::Failed(Failed { step, errno, command: false })
            }
        }
    }
}

/// Says which step an error belongs to.
fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Trouble {
    move |error| Trouble::Step { step, error: error.into() }
}

/// An error number in the words Go has for it.
fn go_text(errno: Errno) -> String {
    let text = errno.desc();
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}
