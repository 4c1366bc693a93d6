//! Watches directories, or says why the kernel does not report their changes.

use std::{
    fmt::{self, Display, Formatter},
    mem, thread,
};

use notify::{
    Config, Error, ErrorKind, EventHandler, RecommendedWatcher, Watcher, recommended_watcher,
};

/// A watcher whose thread runs. notify does not look whether it could start its thread, and
/// its watcher panics without it.
pub(crate) fn start(handler: impl EventHandler) -> notify::Result<RecommendedWatcher> {
    let probe = thread::Builder::new().spawn(|| {}).map_err(Error::io)?;
    // An empty function does not panic.
    let _ = probe.join();
    let mut watcher = recommended_watcher(handler)?;
    if let Err(error) = watcher.configure(Config::default()) {
        // Something else took the room of the probe. Dropping it would panic too; a descriptor
        // is lost.
        mem::forget(watcher);
        return Err(error);
    }
    Ok(watcher)
}

/// An error of notify with its path, in words. notify writes paths as Rust does.
pub(crate) struct Unwatched<'e>(pub(crate) &'e Error);

impl Display for Unwatched<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.0.paths.first() {
            write!(formatter, "{}: ", path.display())?;
        }
        match &self.0.kind {
            ErrorKind::PathNotFound | ErrorKind::WatchNotFound => {
                formatter.write_str("it does not exist")
            }
            ErrorKind::MaxFilesWatch => formatter.write_str(
                "the user has no inotify watches left: raise fs.inotify.max_user_watches of the node",
            ),
            ErrorKind::Io(error) => error.fmt(formatter),
            ErrorKind::Generic(text) => formatter.write_str(text),
            ErrorKind::InvalidConfig(_) => formatter.write_str("the settings of the watch are invalid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_path_and_the_setting_of_the_node() {
        let told = |error: Error| Unwatched(&error.add_path("/a b".into())).to_string();
        assert_eq!(told(Error::path_not_found()), "/a b: it does not exist");
        let spent = told(Error::new(ErrorKind::MaxFilesWatch));
        assert!(spent.starts_with("/a b: ") && spent.contains("fs.inotify.max_user_watches"));
    }
}
