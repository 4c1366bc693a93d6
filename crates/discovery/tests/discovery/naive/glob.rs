//! A naive go-zglob.

use super::{Answer, Files, Kind, above, climb, join};

/// The answer for a `find.glob`.
pub(crate) fn glob(files: &impl Files, app: &[u8], pattern: &str) -> Answer {
    let (climbs, own) = climb(pattern);
    let Some(above) = above(app, climbs) else { return Answer::Fails };
    let below = |names: &[&[u8]]| names.iter().fold(above.clone(), |path, name| join(&path, name));
    let is_meta = |name: &&[u8]| name.contains(&b'*') || name.contains(&b'{');
    let Some(first) = own.iter().position(is_meta) else {
        let found = files.stat(&below(&own)).is_some();
        return if found { Answer::Match } else { Answer::Fails };
    };
    if own.iter().any(|name| name.starts_with(b"$")) {
        return Answer::Unknown;
    }
    let text = format!("/{}", String::from_utf8_lossy(&own.join(&b'/')));
    let Some(parsed) = marks(&text.chars().collect::<Vec<_>>()) else {
        return Answer::Unknown;
    };
    let root = below(&own[..first]);
    let matches = |path: &[u8]| {
        let own = path.get(above.len()..).unwrap_or_default();
        let slash = if above.is_empty() && !own.is_empty() { "/" } else { "" };
        let own = format!("{slash}{}", String::from_utf8_lossy(own));
        agrees(&parsed, &own.chars().collect::<Vec<_>>())
    };
    let found = match files.stat(&root) {
        None => return Answer::Fails,
        Some(Kind::Directory) => any_below(files, &root, &matches),
        Some(_) => matches(&root),
    };
    if found { Answer::Match } else { Answer::NoMatch }
}

fn any_below(files: &impl Files, directory: &[u8], matches: &impl Fn(&[u8]) -> bool) -> bool {
    files.list(directory).iter().any(|name| {
        let path = join(directory, name);
        let enters = files.lstat(&path) == Some(Kind::Directory);
        matches(&path) || (enters && any_below(files, &path, matches))
    })
}

#[derive(Debug)]
enum Mark {
    Directories,
    Run,
    /// Any number of characters other than this one and `/`.
    RunBut(char),
    Literal(char),
    Set(bool, Vec<(char, char)>),
    OneOf(Vec<Vec<char>>),
}

fn marks(text: &[char]) -> Option<Vec<Mark>> {
    let mut rest = text;
    let mut marks = Vec::new();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            ('\\', [escaped, _, ..]) => {
                if *escaped > '\u{FF}' {
                    return None;
                }
                marks.push(Mark::Literal(*escaped));
                rest = &after[1..];
            }
            ('*', ['*', '/', after @ ..]) => {
                marks.push(Mark::Directories);
                rest = after;
            }
            ('*', _) => marks.push(Mark::Run),
            ('[', _) => marks.push(plain_set(enclosed(&mut rest, ']')?)?),
            ('{', _) => {
                let inside = enclosed(&mut rest, '}')?;
                marks
                    .push(Mark::OneOf(inside.split(|c| *c == ',').map(<[char]>::to_vec).collect()));
            }
            ('!', ['(', after @ ..]) => {
                rest = after;
                let inside = enclosed(&mut rest, ')')?;
                if inside.iter().any(|c| matches!(c, '*' | '{' | '[') || *c > '\u{FF}') {
                    return None;
                }
                marks.extend(inside.iter().map(|c| Mark::RunBut(*c)));
            }
            (literal, _) => marks.push(Mark::Literal(*literal)),
        }
    }
    Some(marks)
}

fn enclosed<'a>(rest: &mut &'a [char], end: char) -> Option<&'a [char]> {
    let position = rest.iter().position(|c| *c == end).filter(|position| *position > 0)?;
    let (inside, after) = rest.split_at(position);
    *rest = &after[1..];
    Some(inside)
}

fn plain_set(content: &[char]) -> Option<Mark> {
    let negated = content.first() == Some(&'^');
    let mut rest = &content[usize::from(negated)..];
    if rest.is_empty() || rest.iter().any(|c| matches!(c, '\\' | '[')) {
        return None;
    }
    let mut ranges = Vec::new();
    while let [low, after @ ..] = rest {
        let (high, after) = match after {
            ['-', high, after @ ..] => (high, after),
            after => (low, after),
        };
        if high < low {
            return None;
        }
        ranges.push((*low, *high));
        rest = after;
    }
    Some(Mark::Set(negated, ranges))
}

fn agrees(marks: &[Mark], text: &[char]) -> bool {
    let Some((first, rest)) = marks.split_first() else { return text.is_empty() };
    let run = |stops: &dyn Fn(char) -> bool| {
        let most = text.iter().position(|c| stops(*c)).unwrap_or(text.len());
        (0..=most).any(|taken| agrees(rest, &text[taken..]))
    };
    match first {
        Mark::Directories => {
            let line = text.iter().position(|c| *c == '\n').unwrap_or(text.len());
            let slashes = (0..line).filter(|at| text[*at] == '/');
            let mut starts = std::iter::once(0).chain(slashes.map(|at| at + 1));
            starts.any(|start| agrees(rest, &text[start..]))
        }
        Mark::Run => run(&|c| c == '/'),
        Mark::RunBut(but) => run(&|c| c == '/' || c == *but),
        Mark::Literal(literal) => text.first() == Some(literal) && agrees(rest, &text[1..]),
        Mark::Set(negated, ranges) => text.first().is_some_and(|c| {
            ranges.iter().any(|(low, high)| (low..=high).contains(&c)) != *negated
                && agrees(rest, &text[1..])
        }),
        Mark::OneOf(texts) => texts
            .iter()
            .any(|one| text.strip_prefix(one.as_slice()).is_some_and(|text| agrees(rest, text))),
    }
}
