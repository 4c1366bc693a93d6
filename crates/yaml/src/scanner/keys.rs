//! Tokens that may become the start of a mapping key.

use std::collections::VecDeque;

use super::{Scanner, Text, Token};
use crate::{error::Error, place::Place, token::TokenKind};

/// Longest simple key in characters. YAML 1.1 also requires it to be on one
/// line.
const MAX_KEY_CHARACTERS: usize = 1024;

/// A token that becomes a key if a `:` follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Number of the token, counted from the start of the document.
    token: usize,
    place: Place,
    column: usize,
    /// A mapping is open in this column, so the token must be a key.
    is_required: bool,
}

/// The candidate at one flow depth.
#[derive(Debug, Default)]
struct CandidateSlot {
    candidate: Option<Candidate>,
    /// Number of the token that opened the flow collection.
    bracket: usize,
    had_candidate: bool,
}

/// Candidates for keys: at most one for each open flow collection, and one
/// outside of them.
#[derive(Debug)]
pub(super) struct Keys {
    slots: Vec<CandidateSlot>,
    /// Flow depths of the candidates that the queue waits for, in token order.
    awaited: VecDeque<usize>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { slots: vec![CandidateSlot::default()], awaited: VecDeque::new() }
    }
}

impl Keys {
    /// Forgets all candidates, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.slots.push(CandidateSlot::default());
        self.awaited.clear();
    }

    /// The queue waits until a candidate is decided.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    fn first(&self) -> Option<Candidate> {
        self.awaited.front().and_then(|&depth| self.slots.get(depth)?.candidate)
    }

    fn drop_first(&mut self) {
        if let Some(slot) = self.awaited.pop_front().and_then(|depth| self.slots.get_mut(depth)) {
            slot.candidate = None;
        }
    }

    /// Takes the candidate of the innermost collection.
    fn take(&mut self) -> Option<Candidate> {
        let candidate = self.slots.last_mut()?.candidate.take()?;
        self.stop_waiting();
        Some(candidate)
    }

    fn put(&mut self, candidate: Candidate) {
        let depth = self.slots.len() - 1;
        if let Some(slot) = self.slots.last_mut() {
            slot.candidate = Some(candidate);
            slot.had_candidate = true;
            self.awaited.push_back(depth);
        }
    }

    /// Stops waiting for the innermost collection's candidate.
    fn stop_waiting(&mut self) {
        if self.awaited.back().is_some_and(|depth| depth + 1 == self.slots.len()) {
            self.awaited.pop_back();
        }
    }

    /// Registers a flow collection that the token with number `bracket` opens.
    pub(super) fn open(&mut self, bracket: usize) {
        self.slots.push(CandidateSlot { bracket, ..CandidateSlot::default() });
    }

    /// Closes a flow collection without a candidate.
    ///
    /// If the collection never had one (`[]`), go-yaml no longer waits for a
    /// `:` after it. The collection is then no key if it is the first token in
    /// the queue.
    pub(super) fn close(&mut self) {
        if self.slots.len() < 2 {
            return;
        }
        let Some(CandidateSlot { bracket, had_candidate: false, .. }) = self.slots.pop() else {
            return;
        };
        let outer = self.slots.last().and_then(|slot| slot.candidate);
        if outer.is_some_and(|candidate| candidate.token == bracket) {
            self.stop_waiting();
        }
    }
}

impl Scanner<'_> {
    /// A later `:` can still make this token a key.
    pub(super) fn may_be_key(&mut self, token: usize) -> Result<bool, Error> {
        let Some(candidate) = self.keys.first().filter(|candidate| candidate.token == token) else {
            return Ok(false);
        };
        if self.is_within_reach(&candidate) {
            return Ok(true);
        }
        self.keys.drop_first();
        if candidate.is_required { Err(self.missing_colon()) } else { Ok(false) }
    }

    /// Registers the next token as a candidate if a key is allowed here.
    pub(super) fn expect_key(&mut self) -> Result<(), Error> {
        if let Some(candidate) = self.candidate()? {
            self.keys.put(candidate);
        }
        Ok(())
    }

    /// A candidate for the next token, if a key is allowed here.
    pub(super) fn candidate(&mut self) -> Result<Option<Candidate>, Error> {
        if !self.is_key_allowed {
            return Ok(None);
        }
        self.forget_key()?;
        Ok(Some(Candidate {
            token: self.queue.next_number(),
            place: self.place(),
            column: self.column(),
            is_required: self.flow_depth == 0 && self.indent == Some(self.column()),
        }))
    }

    /// Drops the candidate of the innermost collection.
    pub(super) fn forget_key(&mut self) -> Result<(), Error> {
        match self.keys.take() {
            Some(candidate) if candidate.is_required => Err(self.missing_colon()),
            _ => Ok(()),
        }
    }

    /// Handles a `:`. Queues the tokens for a key before the candidate. Returns
    /// false if there is no candidate.
    pub(super) fn mark_key(&mut self) -> Result<bool, Error> {
        let Some(candidate) = self.keys.take() else {
            return Ok(false);
        };
        if !self.is_within_reach(&candidate) {
            return if candidate.is_required { Err(self.missing_colon()) } else { Ok(false) };
        }
        let Candidate { place, column, token, .. } = candidate;
        let announce = |kind| Token::new(kind, place, place.offset(), Text::EMPTY);
        self.queue.insert(token, announce(TokenKind::Key));
        if self.open_block(column)? {
            self.queue.insert(token, announce(TokenKind::BlockMappingStart));
        }
        Ok(true)
    }

    /// Queues a scalar. Most scalars that may be keys have their `:` right
    /// after them, and then nothing has to wait.
    pub(super) fn push_scalar(
        &mut self,
        scalar: Token,
        candidate: Option<Candidate>,
    ) -> Result<(), Error> {
        let Some(candidate) = candidate else {
            self.queue.push(scalar);
            return Ok(());
        };
        let is_key = self.fault.is_none()
            && self.byte(0) == b':'
            && self.flow_depth == 0
            && self.is_blank_or_end(1)
            && self.is_within_reach(&candidate);
        if !is_key {
            self.keys.put(candidate);
            self.queue.push(scalar);
            return Ok(());
        }
        let announce = |kind| Token::new(kind, scalar.place, scalar.place.offset(), Text::EMPTY);
        if self.open_block(candidate.column)? {
            self.queue.push(announce(TokenKind::BlockMappingStart));
        }
        self.queue.push(announce(TokenKind::Key));
        self.queue.push(scalar);
        self.is_key_allowed = false;
        self.indicator(TokenKind::Value, 1);
        Ok(())
    }

    fn is_within_reach(&self, candidate: &Candidate) -> bool {
        let start = candidate.place.offset();
        candidate.place.line() == self.line
            && (self.at <= start + MAX_KEY_CHARACTERS || self.is_short_enough(start))
    }

    /// The text from `start` has few enough characters.
    fn is_short_enough(&self, start: usize) -> bool {
        let bytes = self.input.get(start..self.at).unwrap_or_default();
        // A character has at most four bytes.
        bytes.len() <= 4 * MAX_KEY_CHARACTERS
            && bytes.iter().filter(|&byte| byte & 0xC0 != 0x80).count() <= MAX_KEY_CHARACTERS
    }

    fn missing_colon(&self) -> Error {
        self.error("could not find expected ':'")
    }
}
