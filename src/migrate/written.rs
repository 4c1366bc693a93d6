//! Variables of directories that their programs must write to.

use super::{
    edit,
    field::{is_within, label, text},
    own::TEMPORARY,
    plugin::Plugin,
    report::Report,
};

/// Such variables, with their programs. Those of [`cmp_sandbox::WRITTEN`] are the request's own.
const WRITTEN: [(&str, &str); 3] =
    [("AZURE_CONFIG_DIR", "az"), ("CLOUDSDK_CONFIG", "gcloud"), ("GNUPGHOME", "gpg")];

/// Reports such a directory of the image. Other lines of the report tell of directories in volumes
/// and in /tmp.
pub(super) fn remark(plugin: &Plugin, report: &mut Report) {
    for (name, program) in WRITTEN {
        let Some(path) = plugin.sidecar.variable(name).filter(|path| path.starts_with('/')) else {
            continue;
        };
        let mut mounts = plugin.sidecar.mounts().iter();
        let is_told = is_within(path, TEMPORARY)
            || mounts.any(|mount| is_within(path, text(mount, "mountPath")))
            || edit::has_cache(&plugin.text, name);
        if !is_told {
            let cache = label(name, usize::MAX);
            report.check(format!(
                "plugin `{}`: {name} is {path}, where no volume is: {program} must write there, and \
                 no request can: add spec.sandbox.caches: [{{name: {cache}, env: {name}}}], and let \
                 `init` fill this directory, which is empty at first, for example with keys of a \
                 Secret",
                plugin.name
            ));
        }
    }
}
