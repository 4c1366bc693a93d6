//! The page of differences from argocd-cmp-server and the tests that show them.

use std::{collections::BTreeSet, fs};

use crate::sources::{files_in, repository};

/// The beginning of each row or point of `docs/compatibility.md`, and the tests that show
/// what it says: functions in Rust or Go, or attacks.
const SHOWN: &[(&str, &[&str])] = &[
    (
        "a name or version with `/`",
        &[
            "names_that_lead_out_of_the_socket_directory_are_refused",
            "TestOursServesTheGoodBesideTheBroken",
        ],
    ),
    ("a socket directory whose path", &["a_socket_that_cannot_be_made_ends_with_20"]),
    ("an invalid pattern", &["TestOursRefusesDefinitionsAsDocumented"]),
    ("`$NAME` as a component", &["TestOursRefusesDefinitionsAsDocumented"]),
    ("`\\p{…}` in a character class", &["TestOursRefusesDefinitionsAsDocumented"]),
    ("a NUL byte in a command", &["TestOursRefusesDefinitionsAsDocumented"]),
    ("an unknown key inside `spec.sandbox`", &["TestOursRefusesDefinitionsAsDocumented"]),
    (
        "two definitions with one name",
        &["of_two_files_with_one_name_the_first_is_served_and_both_are_named"],
    ),
    (
        "a pattern over 4,096 bytes",
        &[
            "TestOursRefusesDefinitionsAsDocumented",
            "a_decision_that_needs_too_many_steps_is_an_error",
        ],
    ),
    (
        "an archive over 1 GiB",
        &["TestOursIsNotExhaustedByAnArchive", "TestOursTakesOrRefusesWhatArgoCDDoes"],
    ),
    ("for discovery by names: an archive", &["entries_beyond_the_limit_are_refused"]),
    ("in an archive, an absolute name", &["TestOursTakesOrRefusesWhatArgoCDDoes"]),
    ("in an archive, a directory below", &["TestOursUnpacksRandomArchivesAsArgoCDDoes"]),
    ("a sparse file", &["TestOursTakesOrRefusesWhatArgoCDDoes"]),
    ("a command's JSON for dynamic parameters", &["TestOursRefusesAnnouncementsAsDocumented"]),
    ("`null` in a list of parameters", &["a_null_is_named_by_list_and_index"]),
    ("discovery for an application path", &["TestOursDiscoversOtherwiseAsDocumented"]),
    ("discovery by command", &["TestOursDiscoversOtherwiseAsDocumented"]),
    (
        "standard output of a command, also of `init`",
        &["too_much_output_stops_a_plugin", "TestOursLimitsOutputsAsDocumented"],
    ),
    (
        "output that needs more than three times",
        &[
            "outputs_beyond_the_limit_are_refused",
            "an_output_that_needs_too_much_memory_is_an_error",
        ],
    ),
    (
        "a document with more than 10,000 `%TAG`",
        &["hostile_outputs_need_a_small_multiple_of_their_size"],
    ),
    ("compressed messages", &["TestOursRefusesCompressedMessagesAsDocumented"]),
    (
        "a connection that makes no call",
        &["a_client_that_makes_no_call_is_closed_if_others_need_its_room"],
    ),
    (
        "more open calls than",
        &["calls_that_send_nothing_are_refused_and_take_no_other_plugin_away"],
    ),
    ("outputs that do not fit", &["outputs_that_fill_the_budget_leave_others_alone"]),
    ("more requests at a time", &["TestOursExplainsTheQueueToAClientThatStillSends"]),
    ("a client that sends less", &["TestOursEndsAStreamThatStalls"]),
    (
        "a client that reads less",
        &[
            "an_answer_that_is_not_read_ends_with_its_deadline_and_delays_no_shutdown",
            "an_answer_is_dropped_if_its_client_reads_nothing",
        ],
    ),
    ("on a node with Linux 5.13 to 5.18", &["tree_moved"]),
    ("on a node with Linux 5.13 to 6.1", &["fs_truncate_open"]),
    ("a Unix socket in tier `landlock`", &["ip_bind_own", "ip_pair"]),
    (
        "a pseudo-terminal",
        &["TestOursShowsCommandsOtherThingsAsDocumented", "ip_shm", "ip_sem", "ip_msg"],
    ),
    (
        "new extended attributes and ACLs",
        &["fs_own_attributes", "k_lingering_socket", "k_hidden_memory"],
    ),
    ("choosing the processors", &["pr_processors"]),
    (
        "moving a directory out of a cache",
        &["a_directory_of_another_request_cannot_be_moved_out_of_a_cache"],
    ),
    ("flags and projects of files", &["tree_with_flags", "rs_reserved_space"]),
    ("leases on files and reports of directories", &["fs_lease"]),
    ("a server that a command starts", &["nt_bind"]),
    ("no root and no Linux 6.12", &["the_landlock_tier_needs_landlock_signal_scopes"]),
    ("UID of commands", &["TestOursGivesEveryRequestAUserOfItsOwn"]),
    (
        "`HOME`, `TMPDIR`",
        &[
            "TestOursGivesEveryRequestPlacesOfItsOwn",
            "settings_and_plugins_of_the_images_home_are_there",
        ],
    ),
    ("`GIT_ASKPASS`", &["git_gets_user_name_and_password", "TestArgoCDsHelperGetsGitCredentials"]),
    ("`USER`, `LOGNAME`", &["user_and_logname_are_set"]),
    (
        "`JAVA_TOOL_OPTIONS`",
        &["a_jvm_is_told_its_memory_and_its_directory_before_the_options_of_the_image"],
    ),
    ("`GOMAXPROCS`", &["runtimes_are_told_the_processors_unless_the_image_sets_them"]),
    ("`/proc/self/cgroup`, `maps`", &["TestOursShowsCommandsOtherThingsAsDocumented"]),
    (
        "files outside the repository",
        &[
            "what_is_mounted_read_only_can_be_read_unless_it_is_secret",
            "a_path_that_is_not_listed_cannot",
            "TestOursShowsCommandsOtherThingsAsDocumented",
        ],
    ),
    ("`/tmp`, `/dev/shm`", &["TestOursShowsCommandsOtherThingsAsDocumented"]),
    ("mode of the repository's directory", &["TestOursShowsCommandsOtherThingsAsDocumented"]),
    ("mode of sockets", &["TestOursOpensItsSocketsToArgoCDAlone"]),
    ("network", &["ports_that_are_not_listed_cannot", "nt_bind"]),
    (
        "memory, processes, CPU time",
        &[
            "an_error_names_the_limit_its_key_and_the_request",
            "an_error_names_the_limit_of_processes",
            "an_error_names_the_limit_of_files",
            "TestOursShowsCommandsOtherThingsAsDocumented",
        ],
    ),
    ("umask of commands", &["TestOursShowsCommandsOtherThingsAsDocumented"]),
    ("priority of commands", &["TestOursShowsCommandsOtherThingsAsDocumented"]),
    ("environment of the server", &["without_a_list_all_variables_do_but_the_supervisors_own"]),
    ("a relative directory in `PATH`", &["relative_directories_of_path_are_skipped"]),
    ("`ARGOCD_APP_TARBALL_REL_PATH`", &["TestOursShowsCommandsOtherThingsAsDocumented"]),
    ("`init` replaces", &["TestOursShowsCommandsOtherThingsAsDocumented"]),
    ("an application's path inside", &["TestOursDiscoversOtherwiseAsDocumented"]),
    ("`..` in a pattern", &["TestOursDiscoversOtherwiseAsDocumented"]),
    ("end of a command", &["TestOursEndsAnEscapedProcessThatHoldsTheOutput"]),
    ("processes that a command leaves", &["TestOursLetsNoProcessEscape"]),
    (
        "time before the client's deadline that is kept",
        &["a_cpu_limit_leaves_the_answer_more_of_a_long_deadline"],
    ),
    ("headers that no gRPC client sends", &["TestOursJudgesHeadersAsDocumented"]),
    ("a command after its deadline", &["TestWhatACommandStartedMayCleanUpAtTheDeadline"]),
    ("the last line of an output", &["TestOursKeepsALastLineOfWholeBlocksAsDocumented"]),
    ("mode of a directory that its owner", &["a_closed_directory_is_opened_to_its_owner"]),
    ("JSON with `\\/`", &["json_that_yaml_refuses_is_respelled"]),
    ("a key that a command's JSON", &["TestOursReadsRepeatedKeysAsDocumented"]),
    ("keys of one mapping", &["TestOursTakesTheLastOfEqualKeysAsDocumented"]),
    ("gRPC code", &["TestADeadlineEndsTheCommand"]),
    (
        "standard error in errors",
        &[
            "a_long_error_keeps_both_ends_and_the_request",
            "credentials_reach_neither_errors_nor_logs",
        ],
    ),
    (
        "words of an output that is no YAML",
        &[
            "TestOutputsBecomeTheSameManifestsToTheByte",
            "only_those_who_send_it_again_see_the_line_of_an_output_that_is_no_yaml",
        ],
    ),
    ("a command in errors", &["a_script_is_cut_behind_its_beginning_and_never_in_a_credential"]),
    ("`MatchRepository`", &["TestOursDecidesByNamesWhateverElseRuns"]),
    ("`ARGOCD_EXEC_TIMEOUT`", &["an_error_names_the_timeout_of_commands"]),
    ("`--otlp-insecure false`", &["a_collector_that_is_down_or_needs_tls_costs_a_warning"]),
    ("`TRACEPARENT`", &["TestOursContinuesTheTraceOfTheRepoServer"]),
    (
        "`ARGOCD_CMP_SERVER_OTLP_HEADERS`",
        &["without_a_list_all_variables_do_but_the_supervisors_own"],
    ),
    ("`ARGOCD_GRPC_KEEP_ALIVE_MIN`", &["settings_without_effect_are_named_once"]),
    ("bits beyond permissions", &["TestGenerateSeesNoSetIDBitsOfAnArchive"]),
    (
        "with `preserveFileMode`, files in a directory",
        &["TestOursUnpacksBelowAClosedDirectoryAsDocumented"],
    ),
    ("a link in an archive that leads through", &["at_most_forty_links_are_followed"]),
    ("SIGTERM to the server", &["TestOursEndsWellOnSIGTERM"]),
    (
        "several documents",
        &[
            "in_a_file_of_several_definitions_only_the_broken_one_is_stale",
            "only_the_first_document_is_served",
        ],
    ),
    ("HTTP on port 9180", &["there_is_no_http_without_its_variable"]),
    ("YAML 1.1", &["TestOutputsBecomeTheSameManifestsToTheByte"]),
    ("The standard output of `init`", &["TestInitRunsBeforeGenerateInTheSameDirectory"]),
    ("Discovery ignores one line feed", &["TestDiscoveryAnswersByFileNameGlobOrCommand"]),
    ("Keys are read in any case", &["TestOddDefinitionsAreServed"]),
    ("Hard links and devices", &["TestOursTakesOrRefusesWhatArgoCDDoes"]),
    ("Files are not executable", &["TestFileModesAreKeptOnlyOnRequest"]),
];

/// The beginnings of all rows and points.
fn rows(page: &str) -> Vec<&str> {
    let told = page.lines().filter_map(|line| {
        let row = line.strip_prefix("| ").and_then(|row| row.split(" | ").next());
        row.or_else(|| line.strip_prefix("- "))
    });
    told.filter(|row| *row != "case").collect()
}

/// The contradictions between the rows and the table.
fn faults(rows: &[&str], shown: &[(&str, &[&str])], tests: &BTreeSet<String>) -> Vec<String> {
    let entries = |row: &str| shown.iter().filter(|(start, _)| row.starts_with(start)).count();
    let untested = rows.iter().filter(|row| entries(row) != 1);
    let untested = untested.map(|row| format!("{} entries for the row {row}", entries(row)));
    let is_row = |start: &str| rows.iter().any(|row| row.starts_with(start));
    let unknown = shown.iter().filter(|(start, _)| !is_row(start));
    let unknown = unknown.map(|(start, _)| format!("no row begins with {start}"));
    let named = shown.iter().flat_map(|(start, names)| names.iter().map(move |name| (start, name)));
    let missing = named.filter(|(_, name)| !tests.contains(**name));
    let missing = missing.map(|(start, name)| format!("{start}: no test {name}"));
    let empty = shown.iter().filter(|(_, names)| names.is_empty());
    let empty = empty.map(|(start, _)| format!("{start}: no test"));
    untested.chain(unknown).chain(missing).chain(empty).collect()
}

/// Names of tests, attacks and start tests in a text; and other names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    ["fn ", "func ", "Attack::new(\"", "(\""].into_iter().flat_map(move |before| {
        let after = text.split(before).skip(1);
        after.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
    })
}

#[test]
fn every_difference_is_shown_by_a_test() {
    let mut tests = BTreeSet::new();
    for (directory, extension) in
        [("tests", "rs"), ("tests", "go"), ("src", "rs"), ("crates", "rs")]
    {
        for file in files_in(directory, extension) {
            tests.extend(names(&fs::read_to_string(file).unwrap()).map(str::to_owned));
        }
    }
    let page = fs::read_to_string(repository().join("docs/compatibility.md")).unwrap();
    let faults = faults(&rows(&page), SHOWN, &tests);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn rows_entries_and_tests_without_each_other_are_found() {
    let tests: BTreeSet<_> = names("fn known() Attack::new(\"also_known\", x)").collect();
    let tests = tests.into_iter().map(str::to_owned).collect();
    let rows = rows("| case | peer |\n|---|---|\n| a thing | x |\n- Another one.\n");
    assert_eq!(rows, ["a thing", "Another one."]);
    let of = |shown: &[(&str, &[&str])]| faults(&rows, shown, &tests);
    let first: (&str, &[&str]) = ("a thing", &["known"]);
    assert_eq!(of(&[first, ("Another", &["also_known"])]), Vec::<String>::new());
    assert_eq!(of(&[first]), ["0 entries for the row Another one."]);
    assert_eq!(of(&[first, ("Another", &["gone"])]), ["Another: no test gone"]);
    assert_eq!(of(&[first, ("Another", &[])]), ["Another: no test"]);
    let third = [first, ("Another", &["known"]), ("third", &["known"])];
    assert_eq!(of(&third), ["no row begins with third"]);
}

#[test]
fn the_page_on_security_tells_the_number_of_attacks() {
    let directory = repository().join("tests/attacks/table");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|file| fs::read_to_string(file).unwrap());
    let attacks: usize = texts.map(|text| text.matches("Attack::new(").count()).sum();
    let page = fs::read_to_string(repository().join("docs/security.md")).unwrap();
    assert!(page.contains(&format!("runs {attacks} attacks")), "{attacks} attacks");
}
