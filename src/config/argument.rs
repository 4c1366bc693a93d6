//! Flags, made of the table of settings.

use std::{fmt::Display, time::Duration};

use clap::{
    Arg,
    builder::{ValueParser, ValueParserFactory},
};

use crate::settings::{Default, Limit, Setting};

/// Makes the flag of a setting; for attributes of clap's derive.
pub(super) trait Described: Sized {
    /// Sets name, variable, help and default; clap reads values by their type.
    fn described(self, row: &'static Setting) -> Self;

    /// Makes a flag for an amount, or its absence.
    fn limit(self, row: &'static Setting) -> Self;

    /// Makes a flag for a size.
    fn size(self, row: &'static Setting) -> Self;

    /// Makes a flag for a number.
    fn count(self, row: &'static Setting) -> Self;

    /// Makes a flag for a duration.
    fn time(self, row: &'static Setting) -> Self;
}

impl Described for Arg {
    fn described(self, row: &'static Setting) -> Self {
        let about = match row.default {
            Default::Derived(default) => format!("{} [default: {default}]", row.about),
            Default::Value(_) | Default::None => row.about.to_owned(),
        };
        let mut arg = self.required(false).help(about).help_heading(row.heading.title());
        if let Some(flag) = row.flag {
            arg = arg.long(flag.name).env(flag.variable);
        }
        if let Some(placeholder) = row.kind.placeholder() {
            arg = arg.value_name(placeholder);
        }
        match row.default {
            Default::Value(text) => arg.default_value(text),
            Default::Derived(_) | Default::None => arg,
        }
    }

    fn limit(self, row: &'static Setting) -> Self {
        self.described(row).value_parser(parser(row, Some))
    }

    fn size(self, row: &'static Setting) -> Self {
        self.described(row).value_parser(parser(row, |limit| limit.0))
    }

    fn count(self, row: &'static Setting) -> Self {
        self.described(row).value_parser(parser(row, |limit| u32::try_from(limit.0?).ok()))
    }

    fn time(self, row: &'static Setting) -> Self {
        let time = |limit: Limit| Some(Time(Duration::from_millis(limit.0?)));
        self.described(row).value_parser(parser(row, time))
    }
}

/// A duration on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub(crate) Duration);

/// Only for clap's derive, which asks every type for one: flags replace it.
impl ValueParserFactory for Time {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        ValueParser::string()
    }
}

/// Only for clap's derive, as that of `Time`.
impl ValueParserFactory for Limit {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        ValueParser::string()
    }
}

/// Reads the amount of a setting, as `meaning` has it.
fn parser<T>(row: &'static Setting, meaning: fn(Limit) -> Option<T>) -> ValueParser
where
    T: Clone + Send + Sync + 'static,
{
    ValueParser::new(move |text: &str| {
        let amount = row.amount();
        amount.read(text).and_then(meaning).ok_or_else(|| expected(amount.expected()))
    })
}

/// The error of a value that is not taken; clap puts flag and value before it.
pub(super) fn expected(what: impl Display) -> String {
    format!("expected {what}")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::{Args, Command, CommandFactory, FromArgMatches, Parser};
    use cmp_sandbox::{Bounds, Network};

    use super::*;
    use crate::{
        budget::Budget,
        config::{Serve, Target, serve::MAX_MESSAGE_MIB},
        container::Container,
        plugin::DEFAULT_SOCKET_DIR,
        settings::{ALL, HTTP, Heading, Kind, OUTPUT, SOCKET_DIR},
    };

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        serve: Serve,
    }

    fn serve(arguments: &[&str]) -> Result<Serve, String> {
        let all = ["serve"].iter().chain(arguments);
        Only::try_parse_from(all).map(|only| only.serve).map_err(|error| error.to_string())
    }

    /// The budget of this machine.
    fn budget(serve: &Serve) -> Budget {
        Budget::derive(&Container::read(&serve.work_dir()), &serve.given())
    }

    fn limits(serve: &Serve) -> [(&'static Setting, Limit); 20] {
        serve.limits(&budget(serve))
    }

    #[test]
    fn the_flags_of_serve_are_those_of_the_table() {
        let command = Serve::augment_args(Command::new("serve"));
        let rows = ALL.into_iter().filter_map(|row| Some((row, row.flag?)));
        let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
        assert_eq!(visible.count(), rows.clone().count());
        for (row, flag) in rows {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag.name));
            let arg = arg.unwrap_or_else(|| panic!("--{}", flag.name));
            assert_eq!(arg.get_env(), Some(flag.variable.as_ref()));
            assert!(arg.get_help().unwrap().to_string().starts_with(row.about), "{arg}");
            assert_eq!(arg.get_help_heading(), Some(row.heading.title()), "{arg}");
            let default = match row.default {
                Default::Value(text) => vec![text],
                Default::Derived(_) | Default::None => vec![],
            };
            if row.kind != Kind::Switch {
                assert_eq!(arg.get_default_values(), default, "{arg}");
            }
        }
    }

    #[test]
    fn every_limit_that_can_be_set_is_among_those_that_are_shown() {
        let limits = limits(&serve(&[]).unwrap()).map(|(row, _)| row);
        let is_shown = |row: &&Setting| {
            matches!(row.kind, Kind::Amount(_))
                && row.flag.is_some()
                && row.heading != Heading::Isolation
        };
        assert_eq!(limits.to_vec(), ALL.into_iter().filter(is_shown).collect::<Vec<_>>());
    }

    #[test]
    fn limits_that_nobody_sets_are_shown_as_in_the_table() {
        for (row, limit) in limits(&serve(&[]).unwrap()) {
            if let Default::Value(text) = row.default {
                assert_eq!(row.show(limit), text, "{row:?}");
            }
        }
    }

    #[test]
    fn a_supervisor_is_asked_by_default_where_serve_listens_by_default() {
        let flags = Target::augment_args(Command::new("status")).get_matches_from(["status"]);
        let address = Target::from_arg_matches(&flags).unwrap().address().unwrap();
        assert!(address.ip().is_loopback(), "{address}");
        let Default::Value(listens) = HTTP.default else { panic!("{HTTP:?}") };
        assert!(listens.ends_with(&format!("]:{}", address.port())), "{listens}: {address}");
    }

    #[test]
    fn flags_take_what_keys_take() {
        let serve = serve(&["--max-memory", "512Mi", "--max-cpu=unlimited", "--max-disk=7Gi"]);
        let shown = limits(&serve.unwrap()).map(|(row, limit)| (row.key_name(), row.show(limit)));
        for (key, text) in [("memory", "512Mi"), ("cpu", "unlimited"), ("disk", "7Gi")] {
            assert!(shown.contains(&(key, text.to_owned())), "{shown:?}");
        }
    }

    #[test]
    fn every_flag_of_a_limit_bounds_what_it_names() {
        let serve = serve(&[
            "--max-memory=1",
            "--max-processes=2",
            "--max-cpu=3s",
            "--max-file-size=4",
            "--max-disk=5",
            "--max-files=unlimited",
            "--network=7,8",
            "--read=/nine",
        ]);
        let expected = Bounds {
            memory: Some(1),
            processes: Some(2),
            cpu_seconds: Some(3),
            file_size: Some(4),
            disk: Some(5),
            files: None,
            network: Network::Ports(vec![7, 8]),
            stop_grace: Some(Duration::from_secs(5)),
            read: vec!["/nine".into()],
            ..Bounds::default()
        };
        let serve = serve.unwrap();
        assert_eq!(budget(&serve).each.bounds(&serve.bounds()), expected);
    }

    #[test]
    fn defaults_in_words_end_with_those_of_the_code() {
        let message = format!("{MAX_MESSAGE_MIB}Mi");
        for (row, code) in [(&SOCKET_DIR, DEFAULT_SOCKET_DIR), (&OUTPUT, message.as_str())] {
            let Default::Derived(words) = row.default else { panic!("{row:?}") };
            assert!(words.ends_with(&format!(" {code}")), "{words}: {code}");
        }
    }

    #[test]
    fn a_bad_value_is_told_with_its_flag_and_an_example() {
        for (flag, value, expected) in [
            (
                "--max-memory",
                "lots",
                "<SIZE|unlimited>': expected a size, for example 512Mi or 2G, or unl",
            ),
            ("--max-output", "0", "<SIZE>': expected a size above 0, for example 512Mi or 2G\n"),
            (
                "--max-files",
                "-5",
                "<N|unlimited>': expected a whole number, for example 64, or unlimited\n",
            ),
            ("--max-requests", "4097", "<N>': expected a whole number from 1 to 4096\n"),
            (
                "--max-cpu",
                "600",
                "<DURATION|unlimited>': expected a duration, for example 90s or 1m30s, or",
            ),
            ("--drain-timeout", "soon", "<DURATION>': expected a duration, for example 90s or"),
            ("--http", "here", "<ADDR>': expected an IP address or localhost with a port, for ex"),
            ("--network", "ssh", "<PORTS>': expected TCP ports, for example 22,443, or any, or n"),
            ("--uid-range", "5", "<FIRST-LAST>': expected FIRST-LAST, for example 60706-61183"),
            (
                "--uid-range",
                "1-4294967294",
                "(FIRST above 0, LAST above FIRST and below 4294967294, ",
            ),
            ("--run-as-uid", "me", "<UID>': expected a whole number from 0 to 4294967294\n"),
            ("--run-as-uid", "4294967295", "<UID>': expected a whole number from 0 to 4294967294"),
            ("--isolation", "some", "'--isolation <ISOLATION>'\n  [possible values: auto, names"),
        ] {
            let error = serve(&[&format!("{flag}={value}")]).unwrap_err();
            let start = format!("error: invalid value '{value}' for '{flag}");
            assert!(error.starts_with(&start) || flag == "--isolation", "{error}");
            assert!(error.contains(expected), "{flag}: {error}");
        }
    }

    #[test]
    fn a_file_beside_the_definitions_is_one_more_path_and_may_have_a_colon() {
        let given = serve(&["--events", "--script=/a:b", "--script=/c", "--read=/d:/e"]).unwrap();
        assert_eq!(given.bounds().read, ["/d", "/e", "/a:b", "/c"].map(PathBuf::from));
    }

    #[test]
    fn the_command_is_sound() {
        Only::command().debug_assert();
        assert!(Serve::from_arg_matches(&Only::command().get_matches_from(["serve"])).is_ok());
    }
}
