//! The new container, and the init container that brings the program into it.

use serde_json::{Value, json};

use super::{
    field::{remove, set, unused},
    host::{Form, Host},
    plugin::Plugin,
    resources::Resources,
    tools::Tools,
    variable::Variables,
    volume::named,
};
use crate::{
    config::{Migrate, Profile, SidecarKind},
    plugin::DEFAULT_SOCKET_DIR,
};

/// Name of the container.
pub(super) const NAME: &str = "cmp-supervisor";

/// Name of the init container that copies the program.
pub(super) const INSTALLER: &str = "cmp-install";

/// Volumes of the program, of the definitions and of running requests, if these names
/// are free.
const PROGRAM: &str = "cmp-program";
const PLUGINS: &str = "cmp-plugins";
const WORK: &str = "cmp-work";

/// Volume of the sockets in Argo CD's manifests.
const SOCKETS: &str = "plugins";

/// Directory of the definitions. With its default directory, `serve` also reads a plugin.yaml
/// that the image or a volume has at argocd-cmp-server's path, and the old definition would win.
pub(super) const PLUGINS_DIR: &str = "/cmp-plugins";

/// Directory of the program.
pub(super) const PROGRAM_DIR: &str = "/var/run/cmp";

/// Port of metrics and health.
const PORT: u16 = 9180;

/// Time limit of probes. Kubernetes' default of 1 s is too short for a busy node.
const PROBE_SECONDS: u32 = 5;

/// Time in which an ordinary sidecar serves on after SIGTERM: most of `--drain-timeout`.
const SHUTDOWN_DELAY: &str = "20s";

/// UID of Argo CD's repo-server.
const REPO_SERVER: u64 = 999;

/// The rights and the kind of the container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) profile: Profile,
    pub(super) kind: SidecarKind,
    /// The platform may choose the UID if the sidecars state none, as `OpenShift` does.
    pub(super) has_random_uid: bool,
    /// UID of containers that state none.
    pub(super) pod_user: Option<u64>,
}

impl Shape {
    /// The shape that the options ask for, or the usual one of the host's form.
    pub(super) fn new(options: &Migrate, host: &Host) -> Self {
        let (profile, kind) = match host.form {
            Form::Operator => (Profile::Restricted, SidecarKind::Ordinary),
            Form::Workload | Form::Patch | Form::JsonPatch | Form::Chart => {
                (Profile::Uid, SidecarKind::Native)
            }
        };
        Self {
            profile: options.profile.unwrap_or(profile),
            kind: options.sidecar.unwrap_or(kind),
            has_random_uid: host.form == Form::Operator,
            pod_user: host.pod_user(),
        }
    }
}

/// Names of the container's own volumes.
#[derive(Debug)]
pub(super) struct Names {
    program: String,
    plugins: String,
    work: String,
}

impl Names {
    /// Names that no volume of the input has.
    pub(super) fn beside(volumes: &[Value]) -> Self {
        let name = |base| unused(base, |name| named(volumes, name).is_some());
        Self { program: name(PROGRAM), plugins: name(PLUGINS), work: name(WORK) }
    }
}

/// Everything that the container is made of.
#[derive(Debug)]
pub(super) struct Blueprint<'i> {
    pub(super) shape: Shape,
    pub(super) options: &'i Migrate,
    pub(super) plugins: &'i [Plugin],
    pub(super) log_flags: Vec<String>,
    pub(super) tools: Tools,
    pub(super) variables: Variables,
    pub(super) mounts: Vec<Value>,
    pub(super) resources: Resources,
    pub(super) names: Names,
}

impl Blueprint<'_> {
    /// The sidecar.
    pub(super) fn container(&self) -> Value {
        let http = |path: &str, period: u32| {
            json!({"httpGet": {"path": path, "port": PORT}, "periodSeconds": period,
                "timeoutSeconds": PROBE_SECONDS})
        };
        let mut container = json!({
            "name": NAME,
            "command": [format!("{PROGRAM_DIR}/cmp-supervisor")],
            "args": self.arguments(),
            "ports": [{"name": "cmp-metrics", "containerPort": PORT}],
            "startupProbe": http("/readyz", 1),
            "livenessProbe": http("/livez", 30),
            "securityContext": self.security(),
            "resources": self.resources.container,
            "volumeMounts": self.volume_mounts(),
        });
        set(&mut container, &["startupProbe", "failureThreshold"], json!(60));
        if self.shape.kind == SidecarKind::Native {
            set(&mut container, &["restartPolicy"], json!("Always"));
        }
        for (key, list) in [("env", &self.variables.env), ("envFrom", &self.variables.env_from)] {
            if !list.is_empty() {
                set(&mut container, &[key], json!(list));
            }
        }
        if !self.tools.image.is_empty() {
            set(&mut container, &["image"], json!(self.tools.image));
        }
        for key in ["imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"] {
            let of_image = |plugin: &&Plugin| plugin.sidecar.image() == self.tools.image;
            let plugin = self.plugins.iter().find(of_image);
            if let Some(value) = plugin.and_then(|plugin| plugin.sidecar.field(key)) {
                set(&mut container, &[key], value.clone());
            }
        }
        container
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["serve".to_owned()];
        arguments.extend(self.log_flags.iter().cloned());
        arguments.push(format!("--plugins-dir={PLUGINS_DIR}"));
        arguments.push(format!("--isolation={}", self.shape.profile.tier().as_str()));
        let uid = self.uid();
        if uid != REPO_SERVER && self.shape.profile != Profile::Restricted {
            arguments.push(format!("--run-as-uid={uid}"));
        }
        if self.shape.kind == SidecarKind::Ordinary {
            arguments.push(format!("--shutdown-delay={SHUTDOWN_DELAY}"));
        }
        arguments
    }

    /// UID of the sidecars, which is the repo-server's.
    fn uid(&self) -> u64 {
        self.stated_uid().unwrap_or(REPO_SERVER)
    }

    fn stated_uid(&self) -> Option<u64> {
        let contexts = self.plugins.iter().filter_map(|p| p.sidecar.field("securityContext"));
        let mut users = contexts.filter_map(|context| context.get("runAsUser")?.as_u64());
        let stated = users.find(|uid| *uid != 0);
        stated.or(self.shape.pod_user.filter(|uid| *uid != 0))
    }

    /// True if only the platform or the image tells the UID of a container.
    pub(super) fn has_platform_uid(&self) -> bool {
        let mut contexts = self.plugins.iter().filter_map(|p| p.sidecar.field("securityContext"));
        let states_any = contexts.any(|context| context.get("runAsUser").is_some());
        self.shape.has_random_uid && !states_any && self.stated_uid().is_none()
    }

    /// Security context of a container without any right.
    fn restricted(&self) -> Value {
        let mut context = json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        if !self.has_platform_uid() {
            set(&mut context, &["runAsUser"], json!(self.uid()));
        }
        context
    }

    fn security(&self) -> Value {
        let mut context = self.restricted();
        let rights: &[&str] = match self.shape.profile {
            Profile::Restricted => return context,
            Profile::Uid => &["SETUID", "SETGID", "KILL"],
            Profile::Namespaces => {
                // SYS_ADMIN implies that privileges may grow, and the API server refuses both.
                remove(&mut context, &["allowPrivilegeEscalation"]);
                set(&mut context, &["appArmorProfile"], json!({"type": "Unconfined"}));
                &["SETUID", "SETGID", "KILL", "SYS_ADMIN", "SYS_CHROOT"]
            }
        };
        set(&mut context, &["capabilities", "add"], json!(rights));
        set(&mut context, &["runAsNonRoot"], json!(false));
        set(&mut context, &["runAsUser"], json!(0));
        set(&mut context, &["runAsGroup"], json!(0));
        context
    }

    fn volume_mounts(&self) -> Vec<Value> {
        let Names { program, plugins, work } = &self.names;
        let given = self.plugins.iter().find_map(|plugin| plugin.sidecar.sockets()).cloned();
        let usual = json!({"name": SOCKETS, "mountPath": DEFAULT_SOCKET_DIR});
        let own = [
            given.unwrap_or(usual),
            json!({"name": plugins, "mountPath": PLUGINS_DIR, "readOnly": true}),
            json!({"name": work, "mountPath": "/tmp"}),
            json!({"name": program, "mountPath": PROGRAM_DIR, "readOnly": true}),
        ];
        own.into_iter().chain(self.tools.mounts.clone()).chain(self.mounts.clone()).collect()
    }

    /// Init containers that must run before the sidecar.
    pub(super) fn init_containers(&self) -> Vec<Value> {
        let context = self.restricted();
        let installer = json!({
            "name": INSTALLER,
            "image": self.options.image,
            "args": ["install", PROGRAM_DIR],
            "volumeMounts": [{"name": self.names.program, "mountPath": PROGRAM_DIR}],
        });
        let mut all = vec![installer];
        all.extend(self.tools.init_containers.iter().cloned());
        for container in &mut all {
            set(container, &["securityContext"], context.clone());
        }
        all
    }

    pub(super) fn volumes(&self) -> Vec<Value> {
        let Names { program, plugins, work } = &self.names;
        let (kind, source) = &self.resources.work;
        let own = [
            json!({"name": program, "emptyDir": {}}),
            json!({"name": plugins, "configMap": {"name": self.options.config_map, "optional": true}}),
            json!({"name": work, (*kind): source}),
        ];
        own.into_iter().chain(self.tools.volumes.clone()).collect()
    }
}
