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
mod funnel;
mod hint;
mod incoming;
mod manifests;
mod path;
mod printable;
mod progress;
mod survey;
mod terms;
mod verdict;
mod workspace;

use std::sync::Arc;

use thiserror::Error;

use self::{
    admission::{Lane, Lanes, NoPlace, Place},
    announcement::{InvalidAnnouncements, announce},
    verdict::{Pattern, Question},
};
pub use self::{
    deadline::{Clock, Deadline, Passed},
    hint::Hint,
    incoming::{ArchiveLimits, BrokenStream, Chunks, Header, Incoming, ReceiveError},
    manifests::{InvalidOutput, Manifests},
    path::{AppPath, IllegalAppPath},
    progress::{Course, Phase, Progress},
    verdict::{Surveyed, Undecided, Verdict, Verdicts},
    workspace::{Received, RunError, Surroundings, Workspace},
};
use cmp_sandbox::{Lease, Link, NoLease};

use crate::plugin::{Announcement, Discovery};

/// Serves requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The way to the spawner.
    pub link: Link,
    /// Places for generating and announcing.
    pub generates: Lane,
    /// Places that plugins limit themselves to.
    pub own: Lanes,
    /// Places for discovery by command.
    pub matches: Lane,
    /// Places for discovery by names, which waits for no command.
    pub surveys: Lane,
    /// What was decided by names of late.
    pub verdicts: Verdicts,
    /// What archives may be like.
    pub limits: ArchiveLimits,
    /// What commands get from the supervisor.
    pub surroundings: Arc<Surroundings>,
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
    /// Whether the plugin claims the application has no answer.
    #[error(transparent)]
    Undecided(#[from] Undecided),
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
        let _own = self.admit_own(course).await?;
        let (_place, lease) = self.admit(&self.generates, course).await?;
        let received = incoming.receive(lease, self.limits, course).await?;
        let mut workspace = received.settle(&self.surroundings)?;
        if let Some(init) = &plugin.init {
            workspace.run(init, Phase::Init, course).await?;
        }
        let output = workspace.run(&plugin.generate, Phase::Generate, course).await?;
        course.progress.enter(Phase::Split);
        Ok(Manifests::parse(output, self.surroundings.max_answer)?
            .at_least(plugin.limits.minimum_manifests)?)
    }

    /// Asks whether the plugin claims an application.
    ///
    /// Most plugins look at names: that takes neither a user nor a directory.
    pub async fn matches<C: Chunks>(
        &self,
        incoming: Incoming<'_, C>,
        course: &mut Course,
    ) -> Result<Verdict, RequestError> {
        let plugin = Arc::clone(&course.plugin);
        if let Some(Discovery::Command(command)) = &plugin.discovery {
            let (_place, lease) = self.admit(&self.matches, course).await?;
            let received = incoming.receive(lease, self.limits, course).await?;
            let mut workspace = received.settle_rooted(&self.surroundings);
            let output = workspace.run(command, Phase::Discover, course).await?;
            return Ok(Verdict::of(!matches!(output.as_slice(), b"" | b"\n")));
        }
        course.progress.enter(Phase::Queue);
        let _place = self.surveys.enter(&course.deadline).await?;
        self.survey(incoming, course).await
    }

    /// Decides by the names in the archive, unless that was decided before.
    async fn survey<C: Chunks>(
        &self,
        incoming: Incoming<'_, C>,
        course: &mut Course,
    ) -> Result<Verdict, RequestError> {
        let plugin = Arc::clone(&course.plugin);
        let Some(pattern) = plugin.discovery.as_ref().and_then(Pattern::of) else {
            incoming.survey(self.limits, course).await?;
            return Ok(Verdict::NO_DISCOVERY);
        };
        let question = Question::new(&incoming.header, pattern);
        if let Some(verdict) = question.as_ref().and_then(|asked| self.verdicts.get(asked)) {
            incoming.verify(self.limits, course).await?;
            return Ok(verdict);
        }
        let surveyed = incoming.survey(self.limits, course).await?;
        course.progress.enter(Phase::Discover);
        let (verdict, reason) = surveyed.decide(pattern)?;
        course.progress.reason = Some(reason);
        if let Some(asked) = question {
            self.verdicts.keep(asked, verdict);
        }
        Ok(verdict)
    }

    /// Lists the parameters an application may set.
    pub async fn announce<C: Chunks>(
        &self,
        incoming: Incoming<'_, C>,
        course: &mut Course,
    ) -> Result<Vec<Announcement>, RequestError> {
        let plugin = Arc::clone(&course.plugin);
        let _own = self.admit_own(course).await?;
        let (_place, lease) = self.admit(&self.generates, course).await?;
        let received = incoming.receive(lease, self.limits, course).await?;
        let mut workspace = received.settle(&self.surroundings)?;
        let printed = match &plugin.dynamic {
            Some(command) => Some(workspace.run(command, Phase::Parameters, course).await?),
            None => None,
        };
        Ok(announce(printed.as_deref(), &plugin.announcements)?)
    }

    /// A place among the requests that the plugin itself takes at a time.
    /// Discovery needs none: it must never wait for what generates.
    async fn admit_own(&self, course: &mut Course) -> Result<Option<Place>, NoPlace> {
        course.progress.enter(Phase::Queue);
        self.own.enter(&course.plugin, &course.deadline).await
    }

    /// A place and a user, in this order: whoever waits holds nothing yet.
    async fn admit(
        &self,
        lane: &Lane,
        course: &mut Course,
    ) -> Result<(Place, Lease), RequestError> {
        course.progress.enter(Phase::Queue);
        let place = lane.enter(&course.deadline).await?;
        let bounds = terms::bounds(&self.surroundings.bounds, &course.plugin);
        let lease = self.link.lease(bounds).await?;
        course.progress.uid = Some(lease.uid());
        Ok((place, lease))
    }
}
