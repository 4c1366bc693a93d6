//! Patterns relative to an application, cleaned as in Go.

/// A pattern after Go's `filepath.Join(application, pattern)`.
#[derive(Debug, Default)]
pub(super) struct RelativePattern<'a> {
    /// Number of components of the application's path that `..` removes.
    pub(super) climbs: usize,
    /// The remaining components, each with its byte offset in the pattern.
    pub(super) components: Vec<(&'a str, usize)>,
}

impl<'a> RelativePattern<'a> {
    /// Cleans `pattern`. It is relative to the application even with a leading
    /// `/`.
    pub(super) fn clean(pattern: &'a str) -> Self {
        let mut cleaned = Self::default();
        let mut offset = 0;
        for component in pattern.split('/') {
            cleaned.push(component, offset);
            offset += component.len() + 1;
        }
        cleaned
    }

    /// Appends a component. It may be empty, `.` or `..`.
    fn push(&mut self, component: &'a str, offset: usize) {
        match component {
            "" | "." => {}
            ".." => {
                if self.components.pop().is_none() {
                    self.climbs += 1;
                }
            }
            name => self.components.push((name, offset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_climb_out_of_the_application() {
        let cleaned = RelativePattern::clean("./x/../../y//z/");
        assert_eq!(cleaned.climbs, 1);
        assert_eq!(cleaned.components, [("y", 10), ("z", 13)]);
    }
}
