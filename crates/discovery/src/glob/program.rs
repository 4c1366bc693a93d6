//! An expression as the set of characters it may go on with.

use super::super::rune;
use super::super::steps::{Exhausted, Steps};
use super::expression::{Expression, MAX_EXPRESSION_BYTES};
use super::syntax::{self, Matcher, Piece};
use super::{Fault, PatternFault};

/// Most ways to go on, summed over all characters of an expression: a bound on
/// memory (1 MiB) that only rows of `***/` come near.
const MAX_WAYS: usize = 1 << 18;

/// An automaton without empty moves: every state takes one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    states: Vec<State>,
    start: Box<[StateId]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    matcher: Matcher,
    next: Box<[StateId]>,
}

/// A state by its place.
type StateId = u32;

/// The states a text so far has led to.
#[derive(Debug, Clone, Default)]
pub(super) struct Front {
    states: Vec<StateId>,
    has_matched: bool,
}

/// A program at work, with what is kept from one name to the next.
#[derive(Debug)]
pub(super) struct Run<'a> {
    program: &'a Program,
    steps: Steps,
    /// The turn in which a state was last added: no state is added twice.
    added: Vec<u64>,
    turn: u64,
    other: Front,
    aside: Vec<StateId>,
}

/// Having matched, in place of a state: no state has so high a number.
const MATCHED: StateId = StateId::MAX;

impl Program {
    /// Compiles an expression. A fault's offset is one in the pattern.
    pub(super) fn compile(expression: &Expression) -> Result<Self, Fault> {
        let too_complex = || Fault { offset: 0, fault: PatternFault::TooComplex };
        if expression.text().len() > MAX_EXPRESSION_BYTES {
            return Err(too_complex());
        }
        let text = format!("{}$", expression.text());
        let pieces = syntax::parse(&text).map_err(|Fault { offset, fault }| Fault {
            offset: expression.origin(offset),
            fault,
        })?;
        let mut builder = Builder { states: Vec::new(), ways: 0 };
        let start = builder.sequence(&pieces, &[MATCHED]);
        if builder.ways > MAX_WAYS {
            return Err(too_complex());
        }
        Ok(Self { states: builder.states, start: start.into() })
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(program: &'a Program, steps: Steps) -> Self {
        let added = vec![0; program.states.len()];
        Self { program, steps, added, turn: 0, other: Front::default(), aside: Vec::new() }
    }

    /// Before any text.
    pub(super) fn start(&self) -> Front {
        Front::from_ways(&self.program.start)
    }

    /// Goes on from `front` with one name, or with a slash.
    pub(super) fn advance(&mut self, front: &mut Front, text: &[u8]) -> Result<(), Exhausted> {
        self.steps.take(1)?;
        self.set_aside(front, text);
        let mut rest = text;
        while let Some((character, width)) = rune::decode(rest)
            && (front.has_matched || !front.is_dead())
        {
            self.steps.take(front.states.len() as u64)?;
            self.take(front, character);
            rest = rest.get(width..).unwrap_or_default();
        }
        self.bring_back(front);
        Ok(())
    }

    /// Takes the directories of `**/` out of the way: they outlast any name without
    /// a line feed, and often nothing else outlasts its first character.
    fn set_aside(&mut self, front: &mut Front, text: &[u8]) {
        self.aside.clear();
        if text.iter().any(|byte| matches!(byte, b'/' | b'\n')) {
            return;
        }
        let (program, aside) = (self.program, &mut self.aside);
        front.states.retain(|&id| {
            let lasts = program.states[id as usize].matcher == Matcher::AnyButLineFeed;
            if lasts {
                aside.push(id);
            }
            !lasts
        });
    }

    /// What is aside went round its loop, and may go on with a slash.
    fn bring_back(&mut self, front: &mut Front) {
        if self.aside.is_empty() {
            return;
        }
        self.turn += 1;
        for &id in &front.states {
            self.added[id as usize] = self.turn;
        }
        for &id in &self.aside {
            let state = &self.program.states[id as usize];
            front.add(&state.next, &mut self.added, self.turn);
        }
    }

    fn take(&mut self, front: &mut Front, character: char) {
        self.turn += 1;
        self.other.states.clear();
        self.other.has_matched = false;
        for &id in &front.states {
            let state = &self.program.states[id as usize];
            if state.matcher.takes(character) {
                self.other.add(&state.next, &mut self.added, self.turn);
            }
        }
        std::mem::swap(front, &mut self.other);
    }
}

impl Front {
    /// Whether the text so far matches.
    pub(super) fn has_matched(&self) -> bool {
        self.has_matched
    }

    /// Whether no text that begins so can match, beyond the text so far.
    pub(super) fn is_dead(&self) -> bool {
        self.states.is_empty()
    }

    /// Becomes what `other` is, without giving up the memory it has.
    pub(super) fn set_to(&mut self, other: &Self) {
        self.states.clone_from(&other.states);
        self.has_matched = other.has_matched;
    }

    /// Adds ways to go on, each once a turn.
    fn add(&mut self, ways: &[StateId], added: &mut [u64], turn: u64) {
        for &way in ways {
            match added.get_mut(way as usize) {
                Some(last) if *last == turn => {}
                Some(last) => {
                    *last = turn;
                    self.states.push(way);
                }
                None => self.has_matched = true,
            }
        }
    }

    fn from_ways(ways: &[StateId]) -> Self {
        let states = ways.iter().copied().filter(|&id| id != MATCHED).collect();
        Self { states, has_matched: ways.contains(&MATCHED) }
    }
}

/// Builds states from the end of the expression to its front, because a state
/// needs to know what comes after it.
struct Builder {
    states: Vec<State>,
    ways: usize,
}

impl Builder {
    /// The ways into `pieces` when `after` are the ways on from their end.
    fn sequence(&mut self, pieces: &[Piece], after: &[StateId]) -> Vec<StateId> {
        let mut ways = after.to_vec();
        for piece in pieces.iter().rev() {
            ways = match piece {
                Piece::One(matcher) => vec![self.state(matcher, ways)],
                Piece::Many(matcher) => self.many(matcher, ways),
                Piece::Group { alternatives, is_optional } => {
                    let into = |alternative: &Vec<Piece>| self.sequence(alternative, &ways);
                    let mut merged: Vec<StateId> = alternatives.iter().flat_map(into).collect();
                    if *is_optional {
                        merged.extend_from_slice(&ways);
                    }
                    merged.sort_unstable();
                    merged.dedup();
                    merged
                }
            };
        }
        ways
    }

    fn many(&mut self, matcher: &Matcher, after: Vec<StateId>) -> Vec<StateId> {
        let itself = StateId::try_from(self.states.len()).unwrap_or(MATCHED);
        let mut ways = after;
        ways.push(itself);
        self.state(matcher, ways.clone());
        ways
    }

    /// Past the bound nothing is kept: the program is refused in the end.
    fn state(&mut self, matcher: &Matcher, next: Vec<StateId>) -> StateId {
        self.ways = self.ways.saturating_add(next.len());
        let kept = if self.ways > MAX_WAYS { Box::default() } else { next.into() };
        let id = StateId::try_from(self.states.len()).unwrap_or(MATCHED);
        self.states.push(State { matcher: matcher.clone(), next: kept });
        id
    }
}
