//! The reasons why the kernel does not report changes of a directory.

use std::fmt::{self, Display, Formatter};

use notify::{Error, ErrorKind};

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
