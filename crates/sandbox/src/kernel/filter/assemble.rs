//! Compiles a list of rules for system calls into a BPF program.

use seccompiler::{BpfProgram, sock_filter};

/// Result of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Allow,
    /// The call fails with this error number.
    Fail(u16),
    /// The process is killed.
    Kill,
}

impl Action {
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Fail(errno) => 0x0005_0000 | u32::from(errno),
            Self::Kill => 0x8000_0000,
        }
    }
}

/// A comparison of one argument, and the action if it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    /// Index of the argument, from 0. Only the lower 32 bits are compared,
    /// which is enough for an `int`.
    pub(super) argument: u8,
    pub(super) compare: Compare,
    pub(super) action: Action,
}

/// Comparison of an argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Compare {
    Equals(u32),
    HasAny(u32),
    /// Of these bits, it has exactly those of the value.
    Among {
        bits: u32,
        value: u32,
    },
}

/// Rule for one system call: the first condition that holds decides, otherwise
/// `otherwise`.
#[derive(Clone, Debug)]
pub(super) struct CallRule {
    pub(super) number: u32,
    pub(super) conditions: Vec<Condition>,
    pub(super) otherwise: Action,
}

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const LOAD: u16 = 0x20;
const RETURN: u16 = 0x06;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER_EQUAL: u16 = 0x35;
const IF_ANY: u16 = 0x45;
const AND: u16 = 0x54;

/// Compiles the rules into a binary search. The kernel runs the program once
/// for each system call number when it is installed; a linear list takes four
/// times as long.
pub(super) fn assemble(
    mut rules: Vec<CallRule>,
    architecture: u32,
    foreign_abi: u32,
) -> BpfProgram {
    rules.sort_unstable_by_key(|rule| rule.number);
    let mut program = vec![
        statement(LOAD, ARCHITECTURE),
        jump(IF_EQUAL, architecture, 1, 0),
        statement(RETURN, Action::Kill.code()),
        statement(LOAD, NUMBER),
        // Numbers from `foreign_abi` on belong to a second numbering of the
        // same calls.
        jump(IF_GREATER_EQUAL, foreign_abi, 0, 1),
        statement(RETURN, Action::Fail(1).code()),
    ];
    program.extend(search(&rules));
    program
}

fn search(rules: &[CallRule]) -> BpfProgram {
    match rules {
        [] => vec![statement(RETURN, Action::Allow.code())],
        [rule] => {
            let body = body(rule);
            let skip = u8::try_from(body.len()).unwrap_or(u8::MAX);
            let mut program = vec![jump(IF_EQUAL, rule.number, 0, skip)];
            program.extend(body);
            program.push(statement(RETURN, Action::Allow.code()));
            program
        }
        _ => {
            let (lower, upper) = rules.split_at(rules.len() / 2);
            let middle = upper.first().map_or(u32::MAX, |rule| rule.number);
            let (lower, upper) = (search(lower), search(upper));
            // Conditional jumps reach 255 instructions; this jump reaches any
            // distance.
            let over = u32::try_from(lower.len()).unwrap_or(u32::MAX);
            let mut program = vec![jump(IF_GREATER_EQUAL, middle, 0, 1), always(over)];
            program.extend(lower);
            program.extend(upper);
            program
        }
    }
}

fn body(rule: &CallRule) -> BpfProgram {
    let conditions = rule.conditions.iter().flat_map(|condition| {
        let (mask, code, value) = match condition.compare {
            Compare::Equals(value) => (None, IF_EQUAL, value),
            Compare::HasAny(bits) => (None, IF_ANY, bits),
            Compare::Among { bits, value } => (Some(statement(AND, bits)), IF_EQUAL, value),
        };
        let load = statement(LOAD, ARGUMENTS + 8 * u32::from(condition.argument));
        let decide = [jump(code, value, 0, 1), statement(RETURN, condition.action.code())];
        std::iter::once(load).chain(mask).chain(decide)
    });
    conditions.chain([statement(RETURN, rule.otherwise.code())]).collect()
}

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn always(k: u32) -> sock_filter {
    sock_filter { code: 0x05, jt: 0, jf: 0, k }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const ARCH: u32 = 7;
    const FOREIGN: u32 = 0x4000_0000;

    /// Interprets a program as the kernel does.
    pub(in super::super) fn run(
        program: &[sock_filter],
        number: u32,
        arguments: [u32; 6],
        architecture: u32,
    ) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let holds = match code {
                LOAD => {
                    value = match k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        offset => arguments[(offset - ARGUMENTS) as usize / 8],
                    };
                    continue;
                }
                RETURN => return k,
                AND => {
                    value &= k;
                    continue;
                }
                0x05 => {
                    at += k as usize;
                    continue;
                }
                IF_EQUAL => value == k,
                IF_GREATER_EQUAL => value >= k,
                IF_ANY => value & k != 0,
                other => panic!("unknown instruction {other}"),
            };
            at += usize::from(if holds { jt } else { jf });
        }
    }

    fn plain(number: u32) -> CallRule {
        CallRule { number, conditions: vec![], otherwise: Action::Fail(1) }
    }

    #[test]
    fn every_system_call_matches_only_its_own_rule() {
        let numbers: Vec<u32> = (0..300).filter(|number| number % 3 == 0).collect();
        let program = assemble(numbers.iter().copied().map(plain).collect(), ARCH, FOREIGN);
        for number in 0..310 {
            let expected = if numbers.contains(&number) { Action::Fail(1) } else { Action::Allow };
            assert_eq!(run(&program, number, [0; 6], ARCH), expected.code(), "call {number}");
        }
    }

    #[test]
    fn conditions_are_tested_in_order() {
        let rule = CallRule {
            number: 41,
            conditions: vec![
                Condition { argument: 0, compare: Compare::Equals(1), action: Action::Allow },
                Condition { argument: 1, compare: Compare::HasAny(8), action: Action::Kill },
            ],
            otherwise: Action::Fail(13),
        };
        let program = assemble(vec![rule], ARCH, FOREIGN);
        let action = |first, second| run(&program, 41, [first, second, 0, 0, 0, 0], ARCH);
        assert_eq!(action(1, 8), Action::Allow.code());
        assert_eq!(action(2, 12), Action::Kill.code());
        assert_eq!(action(2, 4), Action::Fail(13).code());
    }

    #[test]
    fn another_architecture_is_killed() {
        let program = assemble(vec![plain(1)], ARCH, FOREIGN);
        assert_eq!(run(&program, 0, [0; 6], ARCH + 1), Action::Kill.code());
        assert_eq!(run(&program, FOREIGN, [0; 6], ARCH), Action::Fail(1).code());
    }
}
