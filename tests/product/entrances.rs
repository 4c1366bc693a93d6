//! All commands that read a plugins directory agree on what is in it.

mod commands;
mod fixtures;

mod tests {
    use std::path::Path;

    use crate::entrances::{
        commands::{Program, Seen},
        fixtures::{FIXTURES, Fixture, Room},
    };

    /// Compares everything that one command sees with the table.
    fn agree(see: impl Fn(&Program, &Room, &Path) -> Seen) {
        let program = Program::new();
        let different = |Fixture { name, make, expected }: &Fixture| {
            let room = Room::new();
            make(&room.plugins());
            room.open();
            let seen = see(&program, &room, &room.plugins());
            (seen != Seen::of(expected)).then(|| format!("{name}: {seen:#?}, not {expected:#?}"))
        };
        let different: Vec<_> = FIXTURES.iter().filter_map(different).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }

    #[test]
    fn serve_sees_what_is_in_the_table() {
        agree(Program::serve);
    }

    #[test]
    fn validate_sees_what_serve_sees() {
        agree(Program::validate);
    }

    #[test]
    fn match_sees_what_serve_sees() {
        agree(Program::matches);
    }

    #[test]
    fn render_sees_what_serve_sees() {
        agree(|program, room, plugins| program.ask_for_nobody("render", room, plugins));
    }

    #[test]
    fn params_sees_what_serve_sees() {
        agree(|program, room, plugins| program.ask_for_nobody("params", room, plugins));
    }

    #[test]
    fn doctor_sees_what_serve_sees() {
        agree(Program::doctor);
    }

    #[test]
    fn no_command_reads_a_part_of_a_crowded_directory() {
        let (program, room) = (Program::new(), Room::new());
        for number in 0..=1000 {
            std::fs::write(room.plugins().join(format!("{number}.yaml")), "").unwrap();
        }
        room.open();
        for verb in ["serve", "validate", "match", "render", "params", "doctor"] {
            let text = program.complaint(verb, &room);
            let crowded = "cannot list the plugins directory: it has more than 1000 entries";
            assert!(text.contains(crowded), "{verb}: {text}");
        }
    }
}
