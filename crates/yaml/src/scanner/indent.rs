//! Block collections, which columns open and close.

use super::{MAX_DEPTH, Scanner};
use crate::{error::Error, token::TokenKind};

impl Scanner<'_> {
    /// Opens a block collection in this column. Does nothing if one is open in
    /// it, or inside flow collections. Returns true if it opened one.
    pub(super) fn open_block(&mut self, column: usize) -> Result<bool, Error> {
        if self.flow_depth > 0 || self.indent >= Some(column) {
            return Ok(false);
        }
        self.indents.push(self.indent);
        self.indent = Some(column);
        if self.indents.len() > MAX_DEPTH {
            return Err(self.too_deep());
        }
        Ok(true)
    }

    /// Closes the block collections to the right of this column.
    #[inline]
    pub(super) fn close_blocks(&mut self, column: Option<usize>) {
        if self.flow_depth > 0 {
            return;
        }
        while self.indent > column {
            self.indicator(TokenKind::BlockEnd, 0);
            self.indent = self.indents.pop().flatten();
        }
    }

    /// `- `
    pub(super) fn block_entry(&mut self) -> Result<(), Error> {
        if self.flow_depth == 0 {
            if !self.is_key_allowed {
                return Err(self.error("block sequence entries are not allowed in this context"));
            }
            if self.open_block(self.column())? {
                self.indicator(TokenKind::BlockSequenceStart, 0);
            }
        }
        // The parser refuses it inside flow collections.
        self.forget_key()?;
        self.is_key_allowed = true;
        self.indicator(TokenKind::BlockEntry, 1);
        Ok(())
    }

    /// `? `
    pub(super) fn key(&mut self) -> Result<(), Error> {
        if self.flow_depth == 0 {
            if !self.is_key_allowed {
                return Err(self.error("mapping keys are not allowed in this context"));
            }
            if self.open_block(self.column())? {
                self.indicator(TokenKind::BlockMappingStart, 0);
            }
        }
        self.forget_key()?;
        self.is_key_allowed = self.flow_depth == 0;
        self.indicator(TokenKind::Key, 1);
        Ok(())
    }

    /// `: `
    pub(super) fn value(&mut self) -> Result<(), Error> {
        if self.mark_key()? {
            self.is_key_allowed = false;
        } else {
            if self.flow_depth == 0 {
                if !self.is_key_allowed {
                    return Err(self.error("mapping values are not allowed in this context"));
                }
                if self.open_block(self.column())? {
                    self.indicator(TokenKind::BlockMappingStart, 0);
                }
            }
            self.is_key_allowed = self.flow_depth == 0;
        }
        self.indicator(TokenKind::Value, 1);
        Ok(())
    }

    /// The error for nesting beyond [`MAX_DEPTH`].
    pub(super) fn too_deep(&self) -> Error {
        self.error(&format!("exceeded max depth of {MAX_DEPTH}")).of_complexity()
    }
}
