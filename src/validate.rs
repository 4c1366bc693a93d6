//! `validate`: what is wrong with definitions, before anybody serves them.
//!
//! Everything is judged by the code that serves: the same reader, the same
//! ledger, the same plan of a reload.

mod against;
mod annotation;
mod excerpt;
mod explain;
mod input;
mod machine;
mod paint;

use std::io::{self, IsTerminal, Write};

use cmp_sandbox::Tier;

pub use self::explain::explain;
use self::{
    against::Reload,
    input::{Input, Kind},
    paint::Paint,
};
use crate::{
    config::{self, ReportFormat, Validate},
    loader::Ledger,
    plugin::{Catalog, Problem, Severity},
};

/// There are errors.
const ERRORS: u8 = 1;

/// There are warnings, and they are not accepted.
const WARNINGS: u8 = 3;

/// Everything that was found.
#[derive(Debug)]
struct Report {
    inputs: Vec<Input>,
    problems: Vec<Problem>,
    catalog: Catalog,
    /// What a reload would do, if that was asked.
    reload: Option<Reload>,
}

/// Checks definitions, prints what was found, and says what to end with.
pub fn validate(options: &Validate) -> io::Result<u8> {
    let inputs = input::collect(&options.paths);
    let reload = (!options.against.is_empty())
        .then(|| Reload::new(&input::collect(&options.against), &inputs));
    let report = Report::new(inputs, reload);
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
        ERRORS
    } else if options.deny_warnings && report.count(Severity::Warning) > 0 {
        WARNINGS
    } else {
        0
    })
}

impl Report {
    fn new(inputs: Vec<Input>, reload: Option<Reload>) -> Self {
        // Where they will be served is not known: no demand is too high here.
        let mut ledger = Ledger::new(Tier::Namespaces);
        let files = inputs.iter().filter(|input| input.kind != Kind::Ignored);
        let files = files.map(|input| (input.path.clone(), input.readings()));
        let (catalog, mut problems) = ledger.take(files);
        problems.extend(ledger.warnings().iter().cloned());
        problems.extend(inputs.iter().filter_map(Input::note));
        problems.extend(reload.iter().flat_map(Reload::problems));
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

    fn files(&self) -> usize {
        self.inputs.iter().filter(|input| input.kind == Kind::File).count()
    }

    /// A line of the file of a name.
    fn line(&self, file: &str, line: usize) -> Option<&[u8]> {
        self.inputs.iter().find(|input| input.path == file)?.line(line)
    }
}

/// Writes a result to standard output. That nobody reads it is no error.
pub fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
