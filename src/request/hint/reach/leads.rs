//! Programs that lead to closed paths.

use std::path::Path;

use cmp_sandbox::{Bounds, CleanPath};

use super::Reach;
use crate::{
    programs::closed,
    request::hint::{advice::Advice, denial::Denial},
};

impl Reach {
    /// The advice about a program that the command may start, and that leads to a closed path.
    /// Only open paths are looked at, and nothing of the sandbox or of the kernel.
    pub(super) fn leads(&self, bounds: &Bounds, denial: &Denial) -> Option<Advice> {
        let readable = self.readable.as_ref()?;
        let is_shown = |path: &Path| {
            let is_named = bounds.readable().any(|named| path.starts_with(named));
            (is_named || readable.is_open(path)) && !readable.is_own(path)
        };
        let program = match denial {
            Denial::Path(path) | Denial::Absent(path) => Some(path.clone()),
            Denial::Program(name) => closed::named(name, &self.search, is_shown),
            Denial::Connect { .. }
            | Denial::Listen
            | Denial::Socket(_)
            | Denial::Write(_)
            | Denial::Create(_) => None,
        };
        let program = program.filter(|path| is_shown(path))?;
        // The rule for a named path is for the one to which it leads.
        let named = bounds.readable().filter_map(|named| Some((named, closed::real(named)?)));
        let named: Vec<_> = named.collect();
        let start = named.iter().find_map(|(named, real)| {
            let rest = program.strip_prefix(named).ok()?;
            CleanPath::new(&real.join(rest))
        });
        let is_real = |path: &Path| named.iter().any(|(_, real)| path.starts_with(real));
        let is_open = |path: &Path| (is_shown(path) || is_real(path)) && !readable.is_own(path);
        let closed = closed::closed(start.as_ref().unwrap_or(&program), is_open)?;
        Some(Advice::only(format!(
            "`{program}` leads to `{closed}`, which the sandbox closes: install it elsewhere, such as \
             in /opt, or add its directory to spec.sandbox.read or --read"
        )))
    }
}
