//! A naive `filepath.Glob`.

use super::{Answer, Files, Kind, above, climb, join};

/// The answer for a `fileName`.
pub(crate) fn file_name(files: &impl Files, app: &[u8], pattern: &str) -> Answer {
    let (climbs, names) = climb(pattern);
    let own: Option<Vec<Vec<Element>>> = names.iter().map(|name| elements(name)).collect();
    let Some(own) = own else { return Answer::Fails };
    let Some(top) = above(app, climbs) else { return Answer::NoMatch };
    let literals = own.iter().take_while(|name| is_literal(name)).count();
    let (literal, rest) = own.split_at(literals);
    let top = literal.iter().fold(top, |path, name| join(&path, &text(name)));
    let found =
        if rest.is_empty() { files.lstat(&top).is_some() } else { below(files, &top, rest) };
    if found { Answer::Match } else { Answer::NoMatch }
}

fn below(files: &impl Files, directory: &[u8], names: &[Vec<Element>]) -> bool {
    let Some((first, rest)) = names.split_first() else { return true };
    files.stat(directory) == Some(Kind::Directory)
        && files
            .list(directory)
            .iter()
            .any(|name| takes(first, name) && below(files, &join(directory, name), rest))
}

#[derive(Debug, PartialEq, Eq)]
enum Element {
    Star,
    Any,
    Literal(char, bool),
    Set(bool, Vec<(char, char)>),
}

fn is_literal(name: &[Element]) -> bool {
    name.iter().all(|element| matches!(element, Element::Literal(_, false)))
}

fn text(name: &[Element]) -> Vec<u8> {
    let characters = name.iter().filter_map(|element| match element {
        Element::Literal(character, _) => Some(*character),
        Element::Star | Element::Any | Element::Set(..) => None,
    });
    characters.collect::<String>().into_bytes()
}

fn elements(name: &[u8]) -> Option<Vec<Element>> {
    let text: Vec<char> = str::from_utf8(name).ok()?.chars().collect();
    let mut rest = text.as_slice();
    let mut elements = Vec::new();
    while let [first, after @ ..] = rest {
        rest = after;
        elements.push(match first {
            '*' => Element::Star,
            '?' => Element::Any,
            '\\' => {
                let [escaped, after @ ..] = rest else { return None };
                rest = after;
                Element::Literal(*escaped, true)
            }
            '[' => set(&mut rest)?,
            literal => Element::Literal(*literal, false),
        });
    }
    Some(elements)
}

fn set(rest: &mut &[char]) -> Option<Element> {
    let one = |rest: &mut &[char]| {
        let (character, after) = match **rest {
            ['\\', escaped, ref after @ ..] => (escaped, after),
            ['\\' | '-' | ']', ..] | [] => return None,
            [character, ref after @ ..] => (character, after),
        };
        *rest = after;
        Some(character)
    };
    let negated = rest.first() == Some(&'^');
    *rest = rest.get(usize::from(negated)..)?;
    let mut ranges = Vec::new();
    loop {
        let low = one(rest)?;
        let mut high = low;
        if let ['-', after @ ..] = *rest {
            *rest = after;
            high = one(rest)?;
        }
        ranges.push((low, high));
        if let [']', after @ ..] = *rest {
            *rest = after;
            return Some(Element::Set(negated, ranges));
        }
    }
}

fn takes(elements: &[Element], name: &[u8]) -> bool {
    let Some((first, rest)) = elements.split_first() else { return name.is_empty() };
    let (character, width) = front(name);
    let inside =
        |ranges: &[(char, char)]| ranges.iter().any(|(l, h)| (l..=h).contains(&&character));
    let one = match first {
        Element::Star => {
            return (0..=name.len()).any(|skip| takes(rest, &name[skip..]));
        }
        Element::Any => true,
        Element::Literal(literal, _) => {
            let mut buffer = [0; 4];
            let literal = literal.encode_utf8(&mut buffer).as_bytes();
            return name.strip_prefix(literal).is_some_and(|name| takes(rest, name));
        }
        Element::Set(negated, ranges) => inside(ranges) != *negated,
    };
    one && !name.is_empty() && takes(rest, &name[width..])
}

fn front(name: &[u8]) -> (char, usize) {
    let whole = |width: usize| str::from_utf8(name.get(..width)?).ok()?.chars().next();
    let found = (1..=4).find_map(|width| whole(width).map(|character| (character, width)));
    found.unwrap_or((char::REPLACEMENT_CHARACTER, 1))
}
