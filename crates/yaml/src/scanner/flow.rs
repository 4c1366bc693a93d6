//! Tokens of flow collections: `[…]` and `{…}`.

use super::{MAX_DEPTH, Scanner};
use crate::{error::Error, token::TokenKind};

impl Scanner<'_> {
    /// `[` or `{`
    pub(super) fn open_flow(&mut self, kind: TokenKind) -> Result<(), Error> {
        self.expect_key()?;
        self.keys.open(self.queue.next_number());
        self.flow_depth += 1;
        if self.flow_depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.is_key_allowed = true;
        self.indicator(kind, 1);
        Ok(())
    }

    /// `]` or `}`. The parser reports one that closes nothing.
    pub(super) fn close_flow(&mut self, kind: TokenKind) -> Result<(), Error> {
        self.forget_key()?;
        self.keys.close();
        self.flow_depth = self.flow_depth.saturating_sub(1);
        self.is_key_allowed = false;
        self.indicator(kind, 1);
        Ok(())
    }

    /// `,`
    pub(super) fn flow_entry(&mut self) -> Result<(), Error> {
        self.forget_key()?;
        self.is_key_allowed = true;
        self.indicator(TokenKind::FlowEntry, 1);
        Ok(())
    }
}
