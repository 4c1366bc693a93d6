//! `status --watch` in a terminal and in a pipe.

use std::{
    fs::File,
    io::{self, Read, Write},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    pty::{Winsize, openpty},
};
use rustix::{
    io::ioctl_fionread,
    process::{Pid, Signal, kill_process},
};

use crate::{
    observed::request::Observed,
    waiting::{eventually, retry},
};

/// Exit code after SIGINT.
const INTERRUPTED: i32 = 130;

/// Exit code after SIGTERM.
const TERMINATED: i32 = 143;

const ROWS: u16 = 8;

/// Size of a pipe that is smaller than the text about many plugins.
const PIPE: i32 = 4096;
const MANY: usize = 100;

/// The last bytes of what a terminal gets each time.
const FRAME_END: &str = "\u{1b}[J";

const CTRL_S: &[u8] = b"\x13";

/// After this time, the watching process has met the stopped terminal.
const LONGER_THAN_THE_PAUSE: Duration = Duration::from_secs(4);

fn status(observed: &Observed, arguments: &[&str]) -> Command {
    // The tests may run in the background of a script, where SIGINT is ignored.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_cmp-supervisor")]);
    command.args(["status", "--http", &observed.server.http.to_string()]).args(arguments);
    command
}

/// Watches in a terminal with this many rows.
fn in_terminal(observed: &Observed) -> (Child, File) {
    let size = Winsize { ws_row: ROWS, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).unwrap();
    let child = status(observed, &["--watch"]).stdout(pty.slave).spawn().unwrap();
    (child, File::from(pty.master))
}

/// Reads until a text was there a number of times.
fn read(from: &mut impl Read, text: &str, times: usize) -> String {
    let (mut all, mut piece) = (String::new(), [0; 4096]);
    while all.matches(text).count() < times {
        let length = from.read(&mut piece).unwrap();
        assert!(length > 0, "no {text:?}: {all}");
        all.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    all
}

fn interrupt(child: &mut Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
    assert_eq!(ended(child), Some(INTERRUPTED));
}

/// The exit code of a process, which must end.
fn ended(child: &mut Child) -> Option<i32> {
    retry(|| child.try_wait().unwrap().ok_or("its end")).code()
}

#[test]
fn a_pipe_gets_plain_text_again_and_again() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    assert!(observed.render("good").status.success());
    let mut child = status(&observed, &["--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let text = read(&mut stdout, "PLUGIN  ", 2);
    assert!(text.contains("generate   ok ") && text.contains("ready, watching"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    interrupt(&mut child);
}

#[test]
fn a_terminal_is_filled_to_its_last_row_and_given_back() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let (mut child, mut terminal) = in_terminal(&observed);
    let text = read(&mut terminal, FRAME_END, 1);
    // If this thread was late, the next frame is there, too.
    let text = text.split_once(FRAME_END).unwrap().0;
    assert!(text.starts_with("\u{1b}[?1049h\u{1b}[?25l") && text.contains("more lines"), "{text}");
    assert_eq!(text.matches("\u{1b}[K").count(), usize::from(ROWS) - 1, "{text}");
    let first: Vec<_> = text.lines().map(|line| line.split(' ').next().unwrap()).take(3).collect();
    assert!(first[0].ends_with("ready,") && first[1..] == ["PLUGIN", "good"], "{text}");
    interrupt(&mut child);
    let rest = read(&mut terminal, "\u{1b}[?1049l", 1);
    assert!(rest.ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{rest:?}");
}

#[test]
fn a_full_pipe_does_not_hold_up_a_signal() {
    let names: Vec<_> = (0..MANY).map(|number| format!("plugin-{number}")).collect();
    let plugins: Vec<_> = names.iter().map(|name| (name.as_str(), "true")).collect();
    let observed = Observed::new(&plugins, &[]);
    for (arguments, signal, code) in [
        (["--watch"].as_slice(), Signal::TERM, TERMINATED),
        (&["--watch"], Signal::INT, INTERRUPTED),
        (&[], Signal::TERM, TERMINATED),
    ] {
        let (reader, writer) = io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ(PIPE)).unwrap();
        let mut child = status(&observed, arguments).stdout(writer).spawn().unwrap();
        // The text does not fit into the pipe, so the process waits within its write.
        eventually("a full pipe", || ioctl_fionread(&reader).unwrap() > 0);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(ended(&mut child), Some(code), "{arguments:?} {signal:?}");
    }
}

#[test]
fn a_full_disk_is_no_missing_answer() {
    let observed = Observed::new(&[("good", "true")], &[]);
    for arguments in [["--watch"].as_slice(), &[]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = status(&observed, arguments).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: cannot print the result: "), "{arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn a_terminal_that_ctrl_s_has_stopped_is_given_back() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let (mut child, mut terminal) = in_terminal(&observed);
    read(&mut terminal, FRAME_END, 1);
    terminal.write_all(CTRL_S).unwrap();
    thread::sleep(LONGER_THAN_THE_PAUSE);
    interrupt(&mut child);
    read(&mut terminal, "\u{1b}[?1049l", 1);
}
