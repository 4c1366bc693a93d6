//! Looks at files on storage that may not answer, for example a network volume.

use std::fmt::Display;

use super::Check;
use crate::volume::FileThread;

/// Looks at files. If there is no answer within the time limit of [`FileThread`], the check
/// names the subject. The look goes on in its thread, for which nobody waits.
pub(super) async fn answer<T: Send + 'static>(
    subject: impl Display,
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Check> {
    FileThread::new().run(look).await.map_err(|error| {
        Check::failure(format!("{subject}: {error}"))
            .remedy("mount a volume that answers there, or name another path")
    })
}

/// The checks that a look makes. If there is no answer, one check that names the subject.
pub(super) async fn checks(
    subject: impl Display,
    look: impl FnOnce() -> Vec<Check> + Send + 'static,
) -> Vec<Check> {
    answer(subject, look).await.unwrap_or_else(|silent| vec![silent])
}
