//! All commands that read a plugins directory find the same plugins in it.

mod commands;
mod fixtures;

mod tests {
    use std::path::Path;

    use crate::entrances::{
        commands::{Found, Program},
        fixtures::{FIXTURES, Fixture, Room},
    };

    /// Compares the findings of one command with the table.
    fn check(find: impl Fn(&Program, &Room, &Path) -> Found) {
        let program = Program::new();
        let different = |Fixture { name, make, expected }: &Fixture| {
            let room = Room::new();
            make(&room.plugins());
            room.open();
            let found = find(&program, &room, &room.plugins());
            (found != Found::of(expected)).then(|| format!("{name}: {found:#?}, not {expected:#?}"))
        };
        let different: Vec<_> = FIXTURES.iter().filter_map(different).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }

    #[test]
    fn serve_finds_the_plugins_of_the_table() {
        check(Program::serve);
    }

    #[test]
    fn validate_finds_the_same_as_serve() {
        check(Program::validate);
    }

    #[test]
    fn match_finds_the_same_as_serve() {
        check(Program::matches);
    }

    #[test]
    fn render_finds_the_same_as_serve() {
        check(|program, room, plugins| program.ask_for_unknown_plugin("render", room, plugins));
    }

    #[test]
    fn params_finds_the_same_as_serve() {
        check(|program, room, plugins| program.ask_for_unknown_plugin("params", room, plugins));
    }

    #[test]
    fn doctor_finds_the_same_as_serve() {
        check(Program::doctor);
    }

    #[test]
    fn every_command_refuses_a_directory_with_too_many_entries() {
        let (program, room) = (Program::new(), Room::new());
        for number in 0..=1000 {
            std::fs::write(room.plugins().join(format!("{number}.yaml")), "").unwrap();
        }
        room.open();
        for verb in ["serve", "validate", "match", "render", "params", "doctor"] {
            let text = program.error(verb, &room);
            let expected = "cannot list the plugins directory: it has more than 1000 entries";
            assert!(text.contains(expected), "{verb}: {text}");
        }
    }
}
