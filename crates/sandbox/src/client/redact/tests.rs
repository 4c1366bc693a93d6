//! Texts with credentials.

use super::*;

fn redactor(entries: &[&str]) -> Redactor {
    Redactor::default().with(entries.iter().map(|entry| entry.as_bytes()))
}

#[test]
fn user_information_in_urls_is_masked() {
    let none = redactor(&[]);
    for (text, shown) in [
        ("fetch https://u:p@example.com/x failed", "fetch https://***@example.com/x failed"),
        ("https://ghp_token@example.com", "https://***@example.com"),
        ("'https://u:p@ss@h/'", "'https://***@h/'"),
        ("https://u:it's@h/x", "https://***@h/x"),
        ("'https://h' u@i", "'https://h' u@i"),
        ("oci://u:p@h https://a:b@i", "oci://***@h https://***@i"),
        ("ssh://git@example.com/x", "ssh://git@example.com/x"),
        ("ssh://git:pw@example.com/x", "ssh://***@example.com/x"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("git@example.com:x", "git@example.com:x"),
        ("://@", "://@"),
        ("https://u:p#q@h/x", "https://***@h/x"),
        ("https://u:p/q?@r@h", "https://***@h"),
        ("https://h:443/a@b", "https://h:443/a@b"),
        ("https://[::1]/a@b", "https://[::1]/a@b"),
        ("a://b:c/d://e:f/g@h i://j:k/l@m", "a://***@h i://***@m"),
        ("a://b:c/@d://e:f/ g://h:i/@j", "a://***@d://e:f/ g://***@j"),
        (
            "parse \"https://u:p#q@h/x\": invalid port \":p\" after host",
            "parse \"https://***@h/x\": invalid port \":***\" after host",
        ),
    ] {
        assert_eq!(none.text(text), shown);
    }
}

/// Each of a million URLs may reach up to the last `@`. If each were searched for on its own,
/// this would take many minutes.
#[test]
fn a_word_with_many_urls_is_searched_once() {
    let text = ["://a:b/".repeat(1 << 20).as_str(), "@host"].concat();
    assert_eq!(redactor(&[]).text(&text), "://***@host");
}

/// If the search for each value were prepared for each text, this would take many minutes.
#[test]
fn short_texts_are_not_searched_for_long_values() {
    let entries: Vec<_> =
        (0..MAX_SECRETS).map(|n| format!("T{n}_TOKEN={n:0MAX_LENGTH$}")).collect();
    let redactor = redactor(&entries.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(redactor.secrets.len(), MAX_SECRETS);
    for _ in 0..200_000 {
        assert_eq!(redactor.bytes(b"x\n"), b"x\n");
    }
}

#[test]
fn values_of_credentials_are_masked_everywhere() {
    let redactor = redactor(&["GIT_PASSWORD=hunter22", "ARGOCD_ENV_api_token=a=b=c=d"]);
    assert_eq!(redactor.text("a hunter22, hunter22b a=b=c=d"), "a ***, ***b ***");
}

#[test]
fn values_of_other_variables_are_not_masked() {
    let entries = ["HOME=/home/argocd", "TOKEN_FILE=/run/token", "SECRET=true", "A_TOKEN="];
    assert_eq!(
        redactor(&entries).text("/home/argocd /run/token true"),
        "/home/argocd /run/token true"
    );
}

#[test]
fn every_line_of_a_key_is_masked() {
    let redactor = redactor(&["SSH_KEY=-----BEGIN-----\nabcdefgh\nij\n"]);
    assert_eq!(redactor.text("abcdefgh\nij\n-----BEGIN-----"), "***\nij\n***");
}

#[test]
fn the_token_of_a_header_is_masked() {
    for end in ["", " \n"] {
        let header = format!("ARGOCD_GIT_BEARER_AUTH_HEADER=Authorization: Bearer abcdefgh{end}");
        let shown = redactor(&[&header]).text("Authorization: abcdefgh");
        assert_eq!(shown, "Authorization: ***");
    }
}

#[test]
fn overlapping_values_become_one_mask() {
    let redactor = redactor(&["A_TOKEN=abcdef", "B_TOKEN=cdefgh", "C_TOKEN=abcdefgh"]);
    assert_eq!(redactor.text("xabcdefghx"), "x***x");
}

#[test]
fn credentials_that_reach_into_the_end_are_masked() {
    let redactor = redactor(&["A_TOKEN=hunter22"]);
    for before in 0..12 {
        let text = ["-".repeat(2 * MAX_LENGTH).as_str(), "hunter22", &"=".repeat(before)].concat();
        let end = String::from_utf8(redactor.end(text.as_bytes(), 10)).unwrap();
        let masked = if before < 10 { "***" } else { "" };
        let (head, tail) = ("-".repeat(2_usize.saturating_sub(before)), "=".repeat(before.min(10)));
        assert_eq!(end, format!("{head}{masked}{tail}"), "{before}");
    }
    assert_eq!(redactor.end(b"x hunter22", 100), b"x ***");
}

#[test]
fn learned_values_are_masked_from_then_on() {
    let redactor = redactor(&["A_TOKEN=abcdef"]);
    let clone = redactor.with_values([&b"abcdef"[..]]);
    let other = redactor.with([&b"B_TOKEN=x"[..]]);
    assert_eq!(clone.text("abcdef hunter22"), "*** hunter22");
    redactor.learn(b"hunter22");
    assert_eq!(clone.text("abcdef hunter22"), "*** ***");
    assert_eq!(other.text("abcdef hunter22"), "*** hunter22");
    for number in 0..100 {
        redactor.learn(format!("value{number:06}").as_bytes());
    }
    assert_eq!(redactor.text("value000099 hunter22"), "*** hunter22");
    assert_eq!(redactor.learned.read().unwrap().len(), MAX_LEARNED);
}

#[test]
fn debug_output_has_no_credentials() {
    assert!(!format!("{:?}", redactor(&["TOKEN=hunter22"])).contains("hunter"));
}

#[test]
fn many_lines_of_one_value_do_not_displace_others() {
    let lines: Vec<_> = (0..300).map(|number| format!("long line {number:06}")).collect();
    let lines = lines.join("\n");
    let sidecar = redactor(&["A_TOKEN=abcdef"]);
    let request = [format!("B_KEY={lines}"), "C_PASSWORD=hunter".to_owned()];
    let request = sidecar.with(request.iter().map(String::as_bytes));
    assert_eq!(request.text("abcdef hunter long line 000000"), "*** *** ***");
    assert!(sidecar.is_complete() && !request.is_complete());
    let bundle = sidecar.with_values([lines.as_bytes(), b"hunter"]);
    assert_eq!(bundle.text("abcdef hunter long line 000299"), "*** *** ***");
    assert!(bundle.is_complete());
    let more = (0..10).map(|number| lines.replace("long", &format!("{number:04}")));
    let more: Vec<_> = more.collect();
    let partial = sidecar.with_values(more.iter().map(String::as_bytes));
    assert_eq!(partial.text("abcdef 0009 line 000000"), "*** ***");
    assert!(!partial.is_complete() && !partial.with_values([]).is_complete());
}

#[test]
fn only_the_first_lines_and_values_are_read() {
    let values = |same: usize| {
        let mut values = vec!["repeated".to_owned(); same];
        values.push(["repeated\n".repeat(same), "last line".to_owned()].concat());
        Redactor::default().with_values(values.iter().map(String::as_bytes))
    };
    let all = values(MAX_VALUES - 1);
    assert_eq!(all.text("repeated last line"), "*** ***");
    assert!(all.is_complete());
    for same in [MAX_VALUES + 1, MAX_READ] {
        let some = values(same);
        assert_eq!(some.text("repeated last line"), "*** last line");
        assert!(!some.is_complete(), "{same}");
    }
}

#[test]
fn after_many_learned_values_a_redactor_is_not_complete() {
    let redactor = redactor(&[]);
    for number in 0..MAX_LEARNED {
        assert!(redactor.is_complete());
        redactor.learn(format!("value{number:06}").as_bytes());
    }
    assert!(!redactor.is_complete());
}

#[test]
fn number_and_length_of_values_are_bounded() {
    let entries: Vec<_> = (0..2000).map(|n| format!("T{n}_TOKEN=value{n:06}")).collect();
    let entries: Vec<_> = entries.iter().map(String::as_str).collect();
    assert_eq!(redactor(&entries).secrets.len(), MAX_SECRETS);
    let value = ["a", "b", "c"].map(|part| part.repeat(MAX_LENGTH)).concat();
    assert_eq!(redactor(&[&format!("TOKEN={value}")]).text(&value), "*********");
}
