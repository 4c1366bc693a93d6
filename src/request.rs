//! What serving means: from an archive to manifests, a verdict or announcements.
//!
//! A request is a chain of values, each of which only the step before can make:
//! an [`Incoming`] archive and a [`Lease`] become [`Received`] when the checksum
//! is right; that becomes a [`Workspace`] when the application is inside it; a
//! workspace runs commands; and their output parses into [`Manifests`]. A step
//! in another order does not compile.

pub mod admission;
pub mod announcement;
mod deadline;
mod incoming;
mod manifests;
mod path;
mod printable;
mod progress;
mod workspace;

use std::sync::Arc;

use thiserror::Error;

use self::{
    admission::{Lane, NoPlace, Place},
    announcement::{InvalidAnnouncements, announce},
};
pub use self::{
    deadline::{Clock, Deadline, Passed},
    incoming::{ArchiveLimits, BrokenStream, Chunks, Header, Incoming, ReceiveError},
    manifests::{InvalidOutput, Manifests},
    path::{AppPath, IllegalAppPath},
    progress::{Course, Phase, Progress},
    workspace::{Received, RunError, Surroundings, Workspace},
};
use crate::{
    plugin::{Announcement, Discovery},
    sandbox::{Lease, Link, NoLease},
};

/// Serves requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The way to the spawner.
    pub link: Link,
    /// Places for generating and announcing.
    pub generates: Lane,
    /// Places for discovery.
    pub matches: Lane,
    /// What archives may be like.
    pub limits: ArchiveLimits,
    /// What commands get from the supervisor.
    pub surroundings: Arc<Surroundings>,
}

/// Whether a plugin claims an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It does.
    pub supported: bool,
    /// It has a way of deciding at all.
    pub discovery: bool,
}

/// Why a request fails, by step.
#[derive(Debug, Error)]
pub enum RequestError {
    /// There is no place for it.
    #[error(transparent)]
    Admission(#[from] NoPlace),
    /// There is no user for it.
    #[error(transparent)]
    Lease(#[from] NoLease),
    /// Its archive is not good.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// Its application is not inside.
    #[error(transparent)]
    Settle(#[from] IllegalAppPath),
    /// A command fails.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What a command prints is not what it should be.
    #[error(transparent)]
    Output(#[from] InvalidOutput),
    /// Announcements are not what they should be.
    #[error(transparent)]
    Announcements(#[from] InvalidAnnouncements),
}

impl Pipeline {
    /// Renders an application.
    pub async fn generate<C: Chunks>(
        &self,
        incoming: Incoming<'_, C>,
        course: &mut Course,
    ) -> Result<Manifests, RequestError> {
        let plugin = Arc::clone(&course.plugin);
        let (_place, lease) = self.admit(&self.generates, course).await?;
        let received = incoming.receive(lease, self.limits, course).await?;
        let mut workspace = received.settle(&self.surroundings)?;
        if let Some(init) = &plugin.init {
            workspace.run(init, Phase::Init, course).await?;
        }
        let output = workspace.run(&plugin.generate, Phase::Generate, course).await?;
        course.progress.enter(Phase::Split);
        Ok(Manifests::parse(output)?)
    }

    /// Asks whether the plugin claims an application.
    pub async fn matches<C: Chunks>(
        &self,
        incoming: Incoming<'_, C>,
        course: &mut Course,
    ) -> Result<Verdict, RequestError> {
        let plugin = Arc::clone(&course.plugin);
        let (_place, lease) = self.admit(&self.matches, course).await?;
        let received = incoming.receive(lease, self.limits, course).await?;
        let mut workspace = received.settle_clamped(&self.surroundings);
        let Some(Discovery::Command(command)) = &plugin.discovery else {
            return Ok(Verdict { supported: false, discovery: false });
        };
        let output = workspace.run(command, Phase::Discover, course).await?;
        Ok(Verdict { supported: !output.is_empty(), discovery: true })
    }

    /// Lists the parameters an application may set.
    pub async fn announce<C: Chunks>(
        &self,
        incoming: Incoming<'_, C>,
        course: &mut Course,
    ) -> Result<Vec<Announcement>, RequestError> {
        let plugin = Arc::clone(&course.plugin);
        let (_place, lease) = self.admit(&self.generates, course).await?;
        let received = incoming.receive(lease, self.limits, course).await?;
        let mut workspace = received.settle(&self.surroundings)?;
        let printed = match &plugin.dynamic {
            Some(command) => Some(workspace.run(command, Phase::Parameters, course).await?),
            None => None,
        };
        Ok(announce(printed.as_deref(), &plugin.announcements)?)
    }

    /// A place and a user, in this order: whoever waits holds nothing yet.
    async fn admit(
        &self,
        lane: &Lane,
        course: &mut Course,
    ) -> Result<(Place, Lease), RequestError> {
        course.progress.enter(Phase::Queue);
        let place = lane.enter(&course.deadline).await?;
        let lease = self.link.lease().await?;
        course.progress.uid = Some(lease.uid());
        Ok((place, lease))
    }
}
