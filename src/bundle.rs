//! Bundles of failed requests: what a request was asked, did and printed, in one file.
//!
//! With `--keep-failed`, the supervisor keeps the last ones in a directory that only
//! its own UID can enter. [`Keeper`] takes the failed requests, a task of its own
//! writes them, and `bundle list|show|get` reads them.

mod archive;
mod directory;
mod keep;
mod record;
mod verbs;

pub use self::{
    archive::{Bundle, NotBundle},
    directory::{Directory, NoDirectory, Stored},
    keep::{Keeper, Keeping},
    record::{Archived, Failed, Printed, Record},
    verbs::{BundleError, get, list, show},
};
