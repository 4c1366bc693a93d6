use super::*;

fn text(text: &str) -> Text {
    text.into()
}

fn ready() -> Event {
    Event::Ready {
        isolation: Tier::Uid,
        landlock: 7,
        leases: 64,
        no_cgroups: None,
        unlisted_sockets: None,
    }
}

fn all() -> Vec<Event> {
    let phases = vec![PhaseTime { phase: Phase::Generate, took_ms: 1.25 }];
    vec![
        ready(),
        Event::Failed {
            reason: text("no"),
            shortfalls: vec![Shortfall {
                tier: Tier::Uid,
                need: cmp_sandbox::Need::Capability,
                reason: "no SETUID".into(),
            }],
        },
        Event::NotServed {
            plugin: None,
            file: Some(text("a.yaml")),
            line: Some(4),
            reason: text("line 4: no"),
        },
        Event::PluginOutput {
            plugin: "p".into(),
            stream: Stream::Stderr,
            text: text("a\n\"b\u{1}"),
        },
        Event::Request {
            plugin: "p".into(),
            method: Method::Generate,
            outcome: Outcome::ExitNonzero,
            took_ms: 2.5,
            phases,
            uid: Some(60706),
            reason: None,
        },
        Event::Warning { text: text("careful") },
    ]
}

async fn read(bytes: &[u8]) -> Vec<Event> {
    let mut events = Events::new(bytes);
    let mut read = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        read.push(event);
    }
    read
}

#[tokio::test]
async fn events_are_read_as_written() {
    let lines: Vec<u8> = all().iter().flat_map(Event::line).collect();
    assert_eq!(lines.split_inclusive(|byte| *byte == b'\n').count(), all().len());
    assert_eq!(read(&lines).await, all());
}

#[test]
fn a_line_is_the_documented_json() {
    let documented = r#"{"event":"ready","isolation":"uid","landlock":7,"leases":64}"#;
    assert_eq!(ready().line().trim_ascii_end(), documented.as_bytes());
}

#[tokio::test]
async fn the_longest_texts_fit_into_a_line() {
    let worst = Text::from("\u{1}".repeat(2 * MAX_TEXT));
    let event =
        Event::NotServed { plugin: None, file: Some(worst.clone()), line: None, reason: worst };
    assert!(event.line().len() <= MAX_LINE);
    assert_eq!(read(&event.line()).await, [event]);
}

#[tokio::test]
async fn a_longer_line_is_an_error() {
    let line = vec![b'x'; MAX_LINE + 2];
    assert!(Events::new(line.as_slice()).next().await.is_err());
}

#[test]
fn a_text_is_cut_between_characters() {
    let cut = Text::from(format!("x{}", "é".repeat(MAX_TEXT))).to_string();
    assert_eq!(cut.len(), MAX_TEXT - 1);
}
