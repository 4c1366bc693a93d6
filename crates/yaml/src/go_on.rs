//! Supervision of a conversion by its caller.

/// Asked at intervals whether to go on. The argument is the memory of all
/// buffers in bytes, results included and the input not.
pub type GoOn<'w> = dyn FnMut(usize) -> bool + 'w;

/// Never stops a conversion.
pub(super) fn always(_memory: usize) -> bool {
    true
}
