//! The image's HOME and variables, in the HOME of a request.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use crate::{
    sandbox_settings::bench::{Bench, isolating_tiers, tiers},
    skip::skip,
};

/// A HOME of an image, removed when this value is dropped.
struct ImageHome(PathBuf);

impl ImageHome {
    /// In `parent`, with these files. Returns `None` if it cannot be created.
    fn new(parent: &str, name: &str, files: &[(&str, &str)]) -> Option<Self> {
        let home = Self(format!("{parent}/cmp-home-{name}-{}", std::process::id()).into());
        for (path, text) in files {
            let path = home.0.join(path);
            if let Err(error) = fs::create_dir_all(path.parent().unwrap()) {
                skip(&format!("needs to create {}: {error}", path.display()));
                return None;
            }
            fs::write(&path, text).unwrap();
        }
        Some(home)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn text(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for ImageHome {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

const FILES: [(&str, &str); 6] = [
    (".config/helm/repositories.yaml", "repositories"),
    (".config/other/key", "secret"),
    (".local/share/helm/plugins/diff/plugin.yaml", "name: diff"),
    (".ssh/id_ed25519", "secret"),
    (".gitconfig", "[user]\n"),
    (".cache/helm/large", "cache"),
];

/// Prints the files that the request has in its HOME, and uses them as tools do.
const SHOW: &str = r#"
show() { echo "$1: '$(cat "$2" 2>/dev/null || true)'"; }
echo 'kind: A'
show repositories "$HELM_CONFIG_HOME/repositories.yaml"
show plugin "$HELM_DATA_HOME/plugins/diff/plugin.yaml"
show git "$HOME/.gitconfig"
show other "$HOME/.config/other/key"
show ssh "$HOME/.ssh/id_ed25519"
show cache "$HELM_CACHE_HOME/large"
show outside "$IMAGE/.ssh/id_ed25519"
echo changed > "$HELM_CONFIG_HOME/repositories.yaml" && mkdir "$HELM_DATA_HOME/plugins/new"
show changed "$HELM_CONFIG_HOME/repositories.yaml"
mkdir -p "$HELM_CACHE_HOME" && touch "$HELM_CACHE_HOME/x" && echo "cached: 'yes'"
echo "home: '$HOME'"
"#;

fn shown(bench: &Bench, tier: &str, keys: &[&str]) -> Vec<String> {
    let rendered = bench.render(tier, &[]);
    keys.iter().map(|key| rendered.value(key)).collect()
}

#[test]
fn settings_and_plugins_of_the_images_home_are_there() {
    let Some(home) = ImageHome::new("/home", "settings", &FILES) else { return };
    // As helm writes it.
    let repositories = home.at(".config/helm/repositories.yaml");
    fs::set_permissions(repositories, fs::Permissions::from_mode(0o600)).unwrap();
    // Without UIDs of their own, requests have one that cannot read a file of root.
    let has_own_uids = |tier: &&str| ["namespaces", "uid"].contains(tier);
    for tier in tiers().into_iter().filter(has_own_uids) {
        let bench = Bench::new("", SHOW).with("HOME", &home.text()).with("IMAGE", &home.text());
        let seen = shown(&bench, tier, &["repositories", "plugin", "git"]);
        assert_eq!(seen, ["repositories", "name: diff", "[user]"], "{tier}");
        let seen = shown(&bench, tier, &["changed", "cached"]);
        assert_eq!(seen, ["changed", "yes"], "{tier}");
        assert!(bench.render(tier, &[]).value("home").ends_with("/home"), "{tier}");
        let unchanged = fs::read_to_string(home.at(".config/helm/repositories.yaml")).unwrap();
        assert_eq!(unchanged, "repositories", "{tier}");
    }
}

#[test]
fn keys_of_the_images_home_are_hidden_until_they_are_named() {
    let Some(home) = ImageHome::new("/home", "keys", &FILES) else { return };
    for tier in isolating_tiers() {
        let hidden = ["other", "ssh", "cache", "outside"];
        let bench = Bench::new("", SHOW).with("HOME", &home.text()).with("IMAGE", &home.text());
        assert_eq!(shown(&bench, tier, &hidden), [""; 4], "{tier}");
        let spec = format!("  sandbox: {{read: [{}]}}", home.at(".ssh").display());
        bench.add("tried", &spec, SHOW);
        assert_eq!(shown(&bench, tier, &hidden), ["", "secret", "", "secret"], "{tier}");
    }
}

#[test]
fn hidden_files_of_the_root_directory_are_in_home_too() {
    let name = format!(".cmp-root-{}", std::process::id());
    let Some(home) = ImageHome::new("/", "visible", &[("key", "secret")]) else { return };
    let hidden = ImageHome(format!("/{name}").into());
    fs::create_dir(&hidden.0).unwrap();
    fs::write(hidden.at("key"), "secret").unwrap();
    let visible = home.0.file_name().unwrap().display();
    let show = format!(
        "show() {{ echo \"$1: '$(cat \"$2\" 2>/dev/null || true)'\"; }}\necho 'kind: A'\n\
         show hidden \"$HOME/{name}/key\"\nshow visible \"$HOME/{visible}/key\"\n"
    );
    for tier in isolating_tiers() {
        let bench = Bench::new("", &show).with("HOME", "/");
        let read = format!("  sandbox: {{read: [{}, {}]}}", hidden.text(), home.text());
        bench.add("tried", &read, &show);
        assert_eq!(shown(&bench, tier, &["hidden", "visible"]), ["secret", ""], "{tier}");
    }
}

#[test]
fn variables_of_the_image_name_other_places() {
    let files = [
        ("data/plugins/diff/plugin.yaml", "name: diff"),
        ("config/helm/repositories.yaml", "repositories"),
        ("config/other/key", "no secret: outside of home directories"),
    ];
    let Some(image) = ImageHome::new("/opt", "variables", &files) else { return };
    for tier in tiers() {
        let at = |path: &str| image.at(path).display().to_string();
        let bench = Bench::new("", SHOW)
            .with("HELM_DATA_HOME", &at("data"))
            .with("XDG_CONFIG_HOME", &at("config"))
            .with("HELM_REPOSITORY_CACHE", &at("cache"))
            .with("IMAGE", &image.text());
        let seen = shown(&bench, tier, &["repositories", "plugin", "other", "changed"]);
        let expected =
            ["repositories", "name: diff", "no secret: outside of home directories", "changed"];
        assert_eq!(seen, expected, "{tier}");
        let script = "mkdir -p \"$HELM_REPOSITORY_CACHE\" && touch \"$HELM_REPOSITORY_CACHE/x\" \
                      && echo 'kind: A' && echo \"at: $HELM_REPOSITORY_CACHE\"";
        bench.add("tried", "", script);
        assert!(!bench.render(tier, &[]).value("at").starts_with(&at("")), "{tier}");
    }
}

#[test]
fn a_home_that_others_cannot_enter_is_left_out() {
    let Some(home) = ImageHome::new("/home", "closed", &FILES) else { return };
    fs::set_permissions(&home.0, fs::Permissions::from_mode(0o700)).unwrap();
    let bench = Bench::new("", SHOW).with("HOME", &home.text()).with("IMAGE", &home.text());
    for tier in tiers() {
        let seen = bench.render(tier, &[]).value("ssh");
        assert!(tier == "none" || seen.is_empty(), "{tier}: {seen}");
    }
    if !tiers().contains(&"uid") {
        return;
    }
    let mut server = bench.serve("uid", &[]);
    let data = home.at(".local/share/helm");
    let reason = format!("{} is closed by the mode 0700 of {}", data.display(), home.text());
    server.says(&reason);
    let log = server.last_log();
    assert!(!log.contains("repositories.yaml is closed"), "it is copied: {log}");
}
