//! Names of variables and options whose values are credentials.

/// Parts of names of variables that hold credentials. `validate` knows fewer for the options of
/// commands: a value that is masked needlessly costs less than a false warning of `--sort-key`.
const CREDENTIALS: [&str; 11] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "TOKEN",
    "SECRET",
    "CRED",
    "APIKEY",
    "_KEY",
    "NONCE",
    "COOKIE",
    HEADER,
];

/// Last words of such names. Elsewhere they are parts of other words: `PATH`, `COMPASS`.
const LAST_WORDS: [&str; 3] = ["PASS", "PAT", "PWD"];

/// The variable of the current directory.
const CURRENT: &str = "PWD";

/// End of names of variables that hold a header of HTTP.
pub(super) const HEADER: &str = "AUTH_HEADER";

/// Ends of names of variables that only describe a credential or point to it.
const REFERENCES: [&str; 8] =
    ["_FILE", "_PATH", "_DIR", "_NAME", "_URL", "_ADDR", "_USERNAME", "_TYPE"];

/// Variables that name a setting of git, with a number at the end: `credential.helper`.
const GIT_SETTING: &str = "GIT_CONFIG_KEY_";

/// Variables with the values of these settings, such as a header of HTTP.
const GIT_VALUE: &str = "GIT_CONFIG_VALUE_";

/// True if a variable's name suggests that its value is a credential.
#[must_use]
pub fn suggests_credential(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_numbered = |start| upper.strip_prefix(start).is_some_and(is_number);
    let speaks = CREDENTIALS.iter().any(|word| upper.contains(word)) || ends_as_credential(name);
    let refers = is_numbered(GIT_SETTING) || REFERENCES.iter().any(|end| upper.ends_with(end));
    (speaks || is_numbered(GIT_VALUE)) && !refers
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if the last word of a name alone suggests a credential: `DB_PASS`, or `db-pass`.
#[must_use]
pub fn ends_as_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    name != CURRENT && LAST_WORDS.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_git_have_names_that_are_shown_and_values_that_are_not() {
        for name in ["GIT_CONFIG_VALUE_0", "GIT_CONFIG_VALUE_12", "GIT_CONFIG_KEY_", "MY_KEY_0"] {
            assert!(suggests_credential(name), "{name}");
        }
        for name in ["GIT_CONFIG_KEY_0", "GIT_CONFIG_KEY_12", "GIT_CONFIG_COUNT"] {
            assert!(!suggests_credential(name), "{name}");
        }
    }

    #[test]
    fn short_words_count_only_as_the_last_one() {
        for name in ["PASS", "PAT", "DB_PASS", "ARGOCD_ENV_github_pat", "MYSQL_PWD"] {
            assert!(suggests_credential(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "OLDPWD",
            "COMPASS",
            "BYPASS",
            "JSON_PATCH",
            "GIT_ASKPASS",
            "PASS_ARGS",
            "PAT_USER",
        ] {
            assert!(!suggests_credential(name), "{name}");
        }
    }
}
