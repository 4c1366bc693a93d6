//! An archive that arrives slowly.

use std::{fs, io::Write, thread, time::Duration};

use nix::{sys::stat::Mode, unistd::mkfifo};

use super::{Fact, PATIENCE, Stage, check};
use crate::{
    requests::{generate, parcel},
    setting::Setting,
};

pub(super) const FACTS: &[Fact] = &[("an_archive_may_arrive_slowly", slow)];

/// Longer than the time for which a command may stay unmeasurable.
const PAUSE: Duration = Duration::from_secs(7);

/// The unpacking process cannot be measured, and the limits do not apply to it.
fn slow() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add("user", "sleep 1; echo '{said: ran}'");
    let _supervisor = stage.start(stage.options.command())?;
    let packed = fs::read(&stage.archive).map_err(|error| error.to_string())?;
    let mut parcel = parcel(&stage.archive, &[], PATIENCE);
    parcel.archive = stage.directory.path().join("pipe");
    mkfifo(&parcel.archive, Mode::S_IRWXU).map_err(|error| error.to_string())?;
    let socket = stage.directory.path().join("sockets/user.sock");
    let answer = thread::scope(|scope| {
        let pipe = &parcel.archive;
        scope.spawn(move || {
            let (first, rest) = packed.split_at(packed.len() / 2);
            // Also opened for reading, so that opening does not block without a reader.
            let both = fs::OpenOptions::new().read(true).write(true).open(pipe);
            let mut pipe = both.expect("a pipe");
            pipe.write_all(first).expect("a reader");
            thread::sleep(PAUSE);
            pipe.write_all(rest).expect("a reader");
        });
        stage.runtime.block_on(generate(&socket, &parcel))
    });
    check(answer.is_ok(), || format!("{answer:?}"))
}
