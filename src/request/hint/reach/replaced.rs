//! Files of volumes that the kubelet replaced while a command ran.

use std::path::Path;

use cmp_sandbox::Bounds;

use super::Reach;
use crate::{
    programs::replaced::{Decided, is_versioned},
    request::hint::{advice::Advice, denial::Denial},
};

impl Reach {
    /// The advice about a file that the command may read by its name, and that was replaced
    /// since that was decided: its rule is for the old one. Only such files are looked at.
    pub(super) fn replaced(
        &self,
        bounds: &Bounds,
        denial: &Denial,
        decided: Decided,
    ) -> Option<Advice> {
        let readable = self.readable.as_ref()?;
        let Denial::Path(path) = denial else { return None };
        // In namespaces, a request keeps the version of its start.
        if self.hides_closed {
            return None;
        }
        let is_script = readable.is_beside_definitions(path);
        let is_named =
            |named: &&Path| *named == &**path || path.starts_with(named) && is_versioned(named);
        // Not the path of the message: below the named one, links may lead anywhere.
        let named = bounds.readable().find(is_named).or(is_script.then_some(&**path))?;
        let volume = decided.replaced(named)?.display();
        let remedy = if is_script {
            "mount scripts as a volume of their own, where new files can be read at once".to_owned()
        } else {
            format!("name {volume} itself in spec.sandbox.read: its rule covers new files")
        };
        Some(Advice::only(format!("{volume} was replaced while the command ran: {remedy}")))
    }
}
