//! `validate`: checks definitions before they are served.
//!
//! It uses the code of `serve`: the same reader, ledger and reload plan.

mod against;
mod annotation;
mod excerpt;
mod explain;
mod input;
mod keys;
mod machine;
mod paint;

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

use cmp_sandbox::Tier;

pub use self::explain::explain;
use self::{
    against::ReloadPreview,
    input::{Input, InputKind},
    paint::Paint,
};
use crate::{
    config::{self, ReportFormat, Validate},
    exit,
    loader::Ledger,
    plugin::{Catalog, Code, Diagnostic, Problem, Reading, Region, Severity},
    programs,
    terminal::print,
};

/// Result of checking all inputs.
#[derive(Debug)]
struct Validation {
    inputs: Vec<Input>,
    problems: Vec<Problem>,
    catalog: Catalog,
    /// Effect of a reload, if `--against` is given.
    reload: Option<ReloadPreview>,
}

/// Checks definitions and prints the result. Returns the exit code.
pub fn validate(options: &Validate) -> io::Result<u8> {
    let inputs = input::collect(&options.paths);
    let reload = (!options.against.is_empty())
        .then(|| ReloadPreview::new(&input::collect(&options.against), &inputs));
    let report = Validation::new(inputs, reload);
    let text = match options.output {
        ReportFormat::Text => {
            let is_colored = io::stdout().is_terminal() && !config::no_color();
            excerpt::report(&report, Paint::new(is_colored))
        }
        ReportFormat::Json => machine::json(&report),
        ReportFormat::Github => annotation::github(&report),
        ReportFormat::Sarif => machine::sarif(&report),
    };
    print(&text)?;
    Ok(if report.count(Severity::Error) > 0 {
        exit::FAILED
    } else if options.deny_warnings && report.has_warnings() {
        exit::WARNINGS
    } else {
        0
    })
}

impl Validation {
    fn new(inputs: Vec<Input>, reload: Option<ReloadPreview>) -> Self {
        // The sidecar's isolation is not known here, so every minimumIsolation is accepted.
        let mut ledger = Ledger::new(Tier::Namespaces);
        let files = inputs.iter().filter(|input| !input.is_ignored());
        let files: Vec<_> = files.map(|input| (input.path.clone(), input.readings())).collect();
        let mut advice = missing_programs(&files);
        advice.extend(files.iter().flat_map(|(file, readings)| keys::ignored(file, readings)));
        let (catalog, mut problems) = ledger.take(files.into_iter());
        problems.extend(advice);
        problems.extend(ledger.warnings().iter().cloned());
        problems.extend(inputs.iter().filter_map(Input::note));
        problems.extend(reload.iter().flat_map(ReloadPreview::problems));
        let order = |problem: &Problem| {
            let file = inputs.iter().position(|input| input.path == problem.file);
            (file, problem.problem.region, problem.problem.code)
        };
        problems.sort_by_cached_key(order);
        Self { inputs, problems, catalog, reload }
    }

    fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|problem| problem.problem.severity() == severity).count()
    }

    /// True if there are warnings about definitions. The sidecar may have programs
    /// that this machine lacks.
    fn has_warnings(&self) -> bool {
        let is_about_it = |problem: &Problem| {
            problem.problem.severity() == Severity::Warning && problem.problem.code != Code::Program
        };
        self.problems.iter().any(is_about_it)
    }

    fn files(&self) -> usize {
        self.inputs.iter().filter(|input| input.kind == InputKind::File).count()
    }

    /// True if a problem is one of a directory.
    fn is_directory(&self, file: &str) -> bool {
        self.inputs.iter().any(|input| input.path == file && input.is_directory())
    }

    /// A line of a file, counted from 1.
    fn line(&self, file: &str, line: usize) -> Option<&[u8]> {
        self.inputs.iter().find(|input| input.path == file)?.line(line)
    }
}

/// Names and contents of all files at these paths, without files of other kinds in directories.
/// An entry that may hold definitions but is not read is an error.
pub(crate) fn texts(paths: &[PathBuf]) -> Vec<(String, input::Content)> {
    let inputs = input::collect(paths).into_iter();
    inputs.filter(|input| !input.is_of_another_kind()).map(Input::into_text).collect()
}

/// Warnings about programs that this machine lacks.
fn missing_programs(files: &[(String, Vec<Reading>)]) -> Vec<Problem> {
    let search = config::search();
    let all = files.iter().flat_map(|(file, readings)| readings.iter().map(move |one| (file, one)));
    let found = all.flat_map(|(file, reading)| {
        let missing = reading.definition.iter().flat_map(|one| programs::missing(one, &search));
        missing.filter_map(move |missing| {
            let mut regions = reading.program_regions.iter();
            let region = regions.find(|(key, _)| *key == missing.key).map(|(_, region)| *region);
            if reading.diagnostics.iter().any(|other| is_no_program(other, region)) {
                return None;
            }
            let problem = Diagnostic::new(Code::Program, missing.to_string())
                .at(region)
                .label(format!("`{}` cannot run on this machine", missing.program))
                .note("in a sidecar that lacks it too, every request that needs it fails, and the plugin is not up")
                .help(missing.remedy());
            let (file, place) = (file.clone(), reading.place.clone());
            Some(Problem { file, place, stale: false, problem })
        })
    });
    found.collect()
}

/// True if a diagnostic says that the first word of a command cannot be a program.
fn is_no_program(found: &Diagnostic, word: Option<Region>) -> bool {
    matches!(found.code, Code::Literal | Code::Unsplit) && found.region == word
}
