//! `status --watch` in a terminal and in a pipe.

use std::{
    fs::File,
    io::Read,
    process::{Child, Command, Stdio},
};

use nix::pty::{Winsize, openpty};
use rustix::process::{Pid, Signal, kill_process};

use crate::observed::request::Observed;

/// Exit code after SIGINT.
const INTERRUPTED: i32 = 130;

const ROWS: u16 = 8;

fn watching(observed: &Observed) -> Command {
    // The tests may run in the background of a script, where SIGINT is ignored.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_cmp-supervisor")]);
    command.args(["status", "--watch", "--http", &observed.server.http.to_string()]);
    command
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
    assert_eq!(child.wait().unwrap().code(), Some(INTERRUPTED));
}

#[test]
fn a_pipe_gets_plain_text_again_and_again() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    assert!(observed.render("good").status.success());
    let mut child = watching(&observed).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let text = read(&mut stdout, "PLUGIN  ", 2);
    assert!(text.contains("generate   ok ") && text.contains("ready, watching"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    interrupt(&mut child);
}

#[test]
fn a_terminal_is_filled_to_its_last_row_and_given_back() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let size = Winsize { ws_row: ROWS, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).unwrap();
    let mut child = watching(&observed).stdout(pty.slave).spawn().unwrap();
    let mut terminal = File::from(pty.master);
    let text = read(&mut terminal, "\u{1b}[J", 1);
    assert!(text.starts_with("\u{1b}[?1049h\u{1b}[?25l") && text.contains("more lines"), "{text}");
    assert_eq!(text.matches("\u{1b}[K").count(), usize::from(ROWS) - 1, "{text}");
    let first: Vec<_> = text.lines().map(|line| line.split(' ').next().unwrap()).take(3).collect();
    assert!(first[0].ends_with("ready,") && first[1..] == ["PLUGIN", "good"], "{text}");
    interrupt(&mut child);
    let rest = read(&mut terminal, "\u{1b}[?1049l", 1);
    assert!(rest.ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{rest:?}");
}
