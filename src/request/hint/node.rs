//! Node.js, whose heap has a limit of its own: it follows from the memory of the container
//! or the node, not from that of the request.

use super::Facts;

/// Words of Node.js when its heap has reached that limit.
const OWN_LIMIT: [&str; 2] = ["Reached heap limit", "Ineffective mark-compacts near heap limit"];

/// Words of Node.js, which has no memory left.
const NO_MEMORY: [&str; 2] = ["JavaScript heap out of memory", "v8::internal::"];

/// Programs that are Node.js.
const PROGRAMS: [&str; 4] = ["node", "npx", "npm", "yarn"];

/// Words that can stand before a program.
const BEFORE: [&str; 7] = ["exec", "if", "then", "do", "else", "!", "{"];

/// Part of the memory that the heap may have. The program needs the rest.
const HEAP: (u64, u64) = (3, 4);

/// The remedy for a heap that reached its own limit.
pub(super) fn heap(text: &str) -> Option<String> {
    OWN_LIMIT.iter().any(|words| text.contains(words)).then(|| {
        "the Node.js heap reached its own limit, not that of the request: set \
         NODE_OPTIONS=--max-old-space-size=MIB in the command, below spec.limits.memory"
            .to_owned()
    })
}

impl Facts<'_> {
    /// The other remedy for a memory limit that Node.js does not know; empty for other programs.
    pub(super) fn heap_limit(&self) -> String {
        let Some(memory) = self.bounds.memory.filter(|_| self.is_node()) else {
            return String::new();
        };
        let mib = (memory >> 20).saturating_mul(HEAP.0) / HEAP.1;
        format!(
            ", or set NODE_OPTIONS=--max-old-space-size={mib} in the command if Node.js took it: it does \
             not know the limit, and frees memory too late"
        )
    }

    fn is_node(&self) -> bool {
        NO_MEMORY.iter().any(|words| self.text.contains(words))
            || self.plugin.commands().any(|(_, line)| {
                let is_script = |(index, word): &(usize, &str)| {
                    *index == 0 || word.contains(char::is_whitespace)
                };
                line.words().enumerate().filter(is_script).any(|(_, text)| starts_node(text))
            })
    }
}

/// True if a program of a command or script is Node.js.
fn starts_node(text: &str) -> bool {
    text.split(['\n', ';', '|', '&', '(', ')']).any(|command| {
        let mut words = command.split_whitespace();
        let program = words.find(|word| !BEFORE.contains(word) && !word.contains('='));
        let name = program.and_then(|program| program.rsplit('/').next());
        name.is_some_and(|name| PROGRAMS.contains(&name))
    })
}
