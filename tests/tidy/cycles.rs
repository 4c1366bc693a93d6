//! Circles of modules that refer to one another.

use std::collections::{BTreeMap, BTreeSet};

use crate::{mentions, sources::Source};

/// The modules that each module refers to, each with a file where the reference stands.
pub(crate) struct References(BTreeMap<String, BTreeMap<String, String>>);

impl References {
    /// Those between top-level modules; the crate's root may refer to everything.
    pub(crate) fn between_modules(sources: &[Source]) -> Self {
        let tops: BTreeSet<_> = sources.iter().map(Source::top).collect();
        Self::collect(sources, |source, path| {
            let (from, to) = (source.top(), path.first()?.as_str());
            let counts = !from.is_empty() && from != to && tops.contains(to);
            counts.then(|| (from.to_owned(), to.to_owned()))
        })
    }

    /// Those between files. A file may refer to those above it. A name that one of these takes
    /// from another file is a reference to the file that declares it.
    pub(crate) fn between_files(sources: &[Source]) -> Self {
        let files = sources.iter().map(|source| (source.module.as_slice(), source)).collect();
        Self::collect(sources, |source, path| {
            let to = declaring(&files, &source.module, path)?;
            (!source.module.starts_with(to)).then(|| (source.module.join("/"), to.join("/")))
        })
    }

    fn collect(
        sources: &[Source],
        reference: impl Fn(&Source, &[String]) -> Option<(String, String)>,
    ) -> Self {
        let mut found = BTreeMap::<_, BTreeMap<_, _>>::new();
        for source in sources {
            for (from, to) in source.mentions.modules().filter_map(|path| reference(source, path)) {
                found.entry(from).or_default().entry(to).or_insert_with(|| source.file.clone());
            }
        }
        Self(found)
    }

    /// References that are part of a circle, in words.
    pub(crate) fn circular(&self) -> Vec<String> {
        let all = self.0.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
        let part = all.filter(|(from, (to, _))| self.leads(to, from));
        part.map(|(from, (to, file))| format!("{from} refers to {to} ({file}), and back")).collect()
    }

    /// Tells if `from` refers to `to`, directly or through others.
    pub(crate) fn leads(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                next.extend(
                    self.0.get(at).into_iter().flatten().map(|(target, _)| target.as_str()),
                );
            }
        }
        false
    }
}

/// The module that declares a path, which `from` refers to. Names are followed through the
/// files above `from`.
fn declaring<'s>(
    files: &BTreeMap<&'s [String], &'s Source>,
    from: &[String],
    path: &[String],
) -> Option<&'s [String]> {
    let mut prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
    let (to, file) = prefixes.find_map(|module| files.get_key_value(module))?;
    let (name, rest) = match path.get(to.len()..)? {
        [name, rest @ ..] if from.starts_with(to) => (name, rest),
        _ => return Some(to),
    };
    match file.mentions.taken.get(name) {
        Some(origin) => declaring(files, from, &[origin, rest].concat()),
        None => Some(to),
    }
}

/// Circles between files with these modules and texts.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let source = |(module, text): &(&str, &str)| {
        let path: Vec<_> = module.split('/').map(str::to_owned).collect();
        let mentions = mentions::of(&syn::parse_file(text).unwrap(), &path);
        Source { file: format!("{module}.rs"), module: path, text: (*text).to_owned(), mentions }
    };
    References::between_files(&files.iter().map(source).collect::<Vec<_>>()).circular()
}

#[test]
fn a_circle_of_siblings_is_found() {
    let found = circles(&[("a", ""), ("a/b", "use super::c::C;"), ("a/c", "use crate::a::b::B;")]);
    assert_eq!(
        found,
        ["a/b refers to a/c (a/b.rs), and back", "a/c refers to a/b (a/c.rs), and back"]
    );
}

#[test]
fn a_circle_through_a_third_file_is_found() {
    let files = [
        ("a", ""),
        ("a/b", "use super::c::C;"),
        ("a/c", "fn f() -> crate::d::D {}"),
        ("d", "use crate::a::b::B;"),
        ("e", "use crate::a::b::B;"),
    ];
    let found = circles(&files);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[1].starts_with("a/c refers to d ("), "{found:?}");
}

#[test]
fn a_circle_through_names_of_the_file_above_is_found() {
    let files = [
        ("a", "mod b; mod c; use self::{b::B, c::C as D};"),
        ("a/b", "use super::D;"),
        ("a/c", "fn f() -> super::B {}"),
    ];
    let found = circles(&files);
    assert_eq!(
        found,
        ["a/b refers to a/c (a/b.rs), and back", "a/c refers to a/b (a/c.rs), and back"]
    );
}

#[test]
fn a_file_may_refer_to_those_above_it() {
    let above = "use super::B; use crate::a::A; use crate::a::b::B;";
    let found =
        circles(&[("a", "use self::b::c::C;"), ("a/b", "use self::c::C;"), ("a/b/c", above)]);
    assert!(found.is_empty(), "{found:?}");
}
