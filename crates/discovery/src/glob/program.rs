//! Compiles an expression to an automaton and runs it.

use super::super::rune;
use super::super::steps::{Exhausted, Steps};
use super::expression::{Expression, MAX_EXPRESSION_BYTES};
use super::syntax::{self, Matcher, Piece};
use super::{Fault, PatternFault};

/// Largest number of transitions of an automaton. It limits memory to 1 MiB.
/// Only long rows of `***/` come near it.
const MAX_WAYS: usize = 1 << 18;

/// An automaton in which each state takes one character.
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

/// Index of a state.
type StateId = u32;

/// The states that are active after the text so far.
#[derive(Debug, Clone, Default)]
pub(super) struct ActiveStates {
    states: Vec<StateId>,
    has_matched: bool,
}

/// A running automaton, with buffers that are reused for each name.
pub(super) struct Run<'a> {
    program: &'a Program,
    steps: Steps<'a>,
    /// The turn in which each state was last added. A state is added once in a
    /// turn.
    added: Vec<u64>,
    turn: u64,
    other: ActiveStates,
    loops: Vec<StateId>,
}

/// Stands for a match in lists of states. No state has this index.
const MATCHED: StateId = StateId::MAX;

impl Program {
    /// Compiles an expression. An error's offset is an offset in the pattern.
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
        let mut builder = ProgramBuilder { states: Vec::new(), ways: 0 };
        let start = builder.sequence(&pieces, &[MATCHED]);
        if builder.ways > MAX_WAYS {
            return Err(too_complex());
        }
        Ok(Self { states: builder.states, start: start.into() })
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(program: &'a Program, steps: Steps<'a>) -> Self {
        let added = vec![0; program.states.len()];
        Self { program, steps, added, turn: 0, other: ActiveStates::default(), loops: Vec::new() }
    }

    /// The active states before any text.
    pub(super) fn start(&self) -> ActiveStates {
        ActiveStates::from_ways(&self.program.start)
    }

    /// Advances `active` by one name or one slash.
    pub(super) fn advance(
        &mut self,
        active: &mut ActiveStates,
        text: &[u8],
    ) -> Result<(), Exhausted> {
        self.steps.take(1)?;
        self.remove_loops(active, text);
        let mut rest = text;
        while let Some((character, width)) = rune::decode(rest)
            && (active.has_matched || !active.is_dead())
        {
            self.steps.take(active.states.len() as u64)?;
            self.take(active, character);
            rest = rest.get(width..).unwrap_or_default();
        }
        self.restore_loops(active);
        Ok(())
    }

    /// Removes the loop states of `**/` from `active`. They stay active over
    /// any name without a line feed, so they need no work for each character.
    fn remove_loops(&mut self, active: &mut ActiveStates, text: &[u8]) {
        self.loops.clear();
        if text.iter().any(|byte| matches!(byte, b'/' | b'\n')) {
            return;
        }
        let (program, loops) = (self.program, &mut self.loops);
        active.states.retain(|&id| {
            let lasts = program.states[id as usize].matcher == Matcher::AnyButLineFeed;
            if lasts {
                loops.push(id);
            }
            !lasts
        });
    }

    /// Adds the removed loop states again, and the states after them.
    fn restore_loops(&mut self, active: &mut ActiveStates) {
        if self.loops.is_empty() {
            return;
        }
        self.turn += 1;
        for &id in &active.states {
            self.added[id as usize] = self.turn;
        }
        for &id in &self.loops {
            let state = &self.program.states[id as usize];
            active.add(&state.next, &mut self.added, self.turn);
        }
    }

    fn take(&mut self, active: &mut ActiveStates, character: char) {
        self.turn += 1;
        self.other.states.clear();
        self.other.has_matched = false;
        for &id in &active.states {
            let state = &self.program.states[id as usize];
            if state.matcher.takes(character) {
                self.other.add(&state.next, &mut self.added, self.turn);
            }
        }
        std::mem::swap(active, &mut self.other);
    }
}

impl ActiveStates {
    /// The text so far matches.
    pub(super) fn has_matched(&self) -> bool {
        self.has_matched
    }

    /// No longer text with this start can match.
    pub(super) fn is_dead(&self) -> bool {
        self.states.is_empty()
    }

    /// Copies `other` and keeps the allocated memory.
    pub(super) fn set_to(&mut self, other: &Self) {
        self.states.clone_from(&other.states);
        self.has_matched = other.has_matched;
    }

    /// Adds states, each once in a turn.
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

/// Builds states from the end of the expression to its start, because each
/// state refers to the states after it.
struct ProgramBuilder {
    states: Vec<State>,
    ways: usize,
}

impl ProgramBuilder {
    /// The first states of `pieces`. `after` are the states after their end.
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

    /// Beyond the limit no transitions are stored, because the program will be
    /// refused.
    fn state(&mut self, matcher: &Matcher, next: Vec<StateId>) -> StateId {
        self.ways = self.ways.saturating_add(next.len());
        let kept = if self.ways > MAX_WAYS { Box::default() } else { next.into() };
        let id = StateId::try_from(self.states.len()).unwrap_or(MATCHED);
        self.states.push(State { matcher: matcher.clone(), next: kept });
        id
    }
}
