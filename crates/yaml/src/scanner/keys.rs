//! Tokens that may turn out to start a mapping's key.

use std::collections::VecDeque;

use super::{Scanner, Text, Token};
use crate::{error::Error, place::Place, token::Kind};

/// A key ends on its line and within this many characters, says YAML 1.1.
const MAX_KEY_CHARACTERS: usize = 1024;

/// A token that becomes a key if a `:` follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Number of the token, counted from the document's first.
    token: usize,
    place: Place,
    column: usize,
    /// In this column stands a mapping, so it must be a key.
    is_required: bool,
}

/// The candidate of a flow collection that is open, or of none.
#[derive(Debug, Default)]
struct Slot {
    candidate: Option<Candidate>,
    /// Number of the bracket that opened the collection.
    bracket: usize,
    had_candidate: bool,
}

/// At most one candidate for each flow collection that is open.
#[derive(Debug)]
pub(super) struct Keys {
    slots: Vec<Slot>,
    /// Depths whose candidates the queue waits for; their tokens are in order.
    awaited: VecDeque<usize>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { slots: vec![Slot::default()], awaited: VecDeque::new() }
    }
}

impl Keys {
    /// Whether the queue waits for any token's fate.
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

    /// The queue waits no more for the innermost collection's candidate.
    fn stop_waiting(&mut self) {
        if self.awaited.back().is_some_and(|depth| depth + 1 == self.slots.len()) {
            self.awaited.pop_back();
        }
    }

    /// The token of this number opens a collection.
    pub(super) fn open(&mut self, bracket: usize) {
        self.slots.push(Slot { bracket, ..Slot::default() });
    }

    /// A collection closes, whose candidate was forgotten before. If it never
    /// had one (`[]`), upstream does not wait for a `:` behind it any more: as
    /// the first of its tokens, it is no key then, although others may be.
    pub(super) fn close(&mut self) {
        if self.slots.len() < 2 {
            return;
        }
        let Some(Slot { bracket, had_candidate: false, .. }) = self.slots.pop() else {
            return;
        };
        let outer = self.slots.last().and_then(|slot| slot.candidate);
        if outer.is_some_and(|candidate| candidate.token == bracket) {
            self.stop_waiting();
        }
    }
}

impl Scanner<'_> {
    /// Whether a `:` could still make this token a key.
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

    /// The token about to be scanned may be a key.
    pub(super) fn expect_key(&mut self) -> Result<(), Error> {
        if let Some(candidate) = self.candidate()? {
            self.keys.put(candidate);
        }
        Ok(())
    }

    /// The token about to be scanned, if it may be a key.
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

    /// What was scanned in this collection so far is no key.
    pub(super) fn forget_key(&mut self) -> Result<(), Error> {
        match self.keys.take() {
            Some(candidate) if candidate.is_required => Err(self.missing_colon()),
            _ => Ok(()),
        }
    }

    /// A `:` is here: queues what announces a key before the token that is
    /// one. `false` if there is none.
    pub(super) fn mark_key(&mut self) -> Result<bool, Error> {
        let Some(candidate) = self.keys.take() else {
            return Ok(false);
        };
        if !self.is_within_reach(&candidate) {
            return if candidate.is_required { Err(self.missing_colon()) } else { Ok(false) };
        }
        let Candidate { place, column, token, .. } = candidate;
        let announce = |kind| Token::new(kind, place, place.offset(), Text::EMPTY);
        self.queue.insert(token, announce(Kind::Key));
        if self.open_block(column)? {
            self.queue.insert(token, announce(Kind::BlockMappingStart));
        }
        Ok(true)
    }

    /// Queues a scalar, which most often is a key if it may be one: then its
    /// `:` is at hand, and nothing has to be waited for.
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
            self.queue.push(announce(Kind::BlockMappingStart));
        }
        self.queue.push(announce(Kind::Key));
        self.queue.push(scalar);
        self.is_key_allowed = false;
        self.indicator(Kind::Value, 1);
        Ok(())
    }

    fn is_within_reach(&self, candidate: &Candidate) -> bool {
        let start = candidate.place.offset();
        candidate.place.line() == self.line
            && (self.at <= start + MAX_KEY_CHARACTERS || self.is_short_enough(start))
    }

    /// Counts characters, as bytes are too many.
    fn is_short_enough(&self, start: usize) -> bool {
        let bytes = self.input.get(start..self.at).unwrap_or_default();
        // No character has more than four bytes.
        bytes.len() <= 4 * MAX_KEY_CHARACTERS
            && bytes.iter().filter(|&byte| byte & 0xC0 != 0x80).count() <= MAX_KEY_CHARACTERS
    }

    fn missing_colon(&self) -> Error {
        self.error("could not find expected ':'")
    }
}
