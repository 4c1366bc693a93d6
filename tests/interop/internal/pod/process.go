package pod

import (
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	core "k8s.io/api/core/v1"
)

// granted are the capabilities that containerd gives a container by default.
var granted = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// Paths that containerd hides, and those that it makes read-only.
var (
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// userNamespace is the number of UIDs that a kubelet gives a Pod with `hostUsers: false`.
const userNamespace = 65536

// translate makes the runtime's configuration of one container.
func (p *Pod) translate(container core.Container) (*specs.Spec, error) {
	if err := untranslated(container); err != nil {
		return nil, fmt.Errorf("container %s: %w", container.Name, err)
	}
	from := p.image(container.Image)
	context := security(p.manifest.Spec.SecurityContext, container.SecurityContext)
	user, err := p.user(from, context)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", container.Name, err)
	}
	mounts, err := p.mounts(container, from)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", container.Name, err)
	}
	command := container.Command
	if len(command) == 0 {
		command = from.entrypoint
	}
	capabilities := capabilitiesOf(context.Capabilities)
	spec := &specs.Spec{
		// That of the runc in Debian 12.
		Version:  "1.0.2",
		Hostname: "pod",
		Root:     &specs.Root{Path: from.root, Readonly: isTrue(context.ReadOnlyRootFilesystem)},
		Mounts:   mounts,
		Process: &specs.Process{
			User:            user,
			Args:            slices.Concat(command, container.Args),
			Env:             p.environment(from, container.Env),
			Cwd:             "/",
			Capabilities:    &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities},
			NoNewPrivileges: context.AllowPrivilegeEscalation != nil && !*context.AllowPrivilegeEscalation,
			OOMScoreAdj:     p.oomScore(container),
		},
		Linux: &specs.Linux{
			CgroupsPath:   "/" + p.id(container),
			Resources:     p.resources(container.Resources),
			MaskedPaths:   masked,
			ReadonlyPaths: readOnly,
		},
	}
	for _, kind := range []specs.LinuxNamespaceType{
		specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace,
	} {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: kind})
	}
	if !p.manifest.hostUsers() {
		mapping := []specs.LinuxIDMapping{{ContainerID: 0, HostID: p.firstUID, Size: userNamespace}}
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		spec.Linux.UIDMappings, spec.Linux.GIDMappings = mapping, mapping
	}
	return spec, filter(spec, context.SeccompProfile)
}

// untranslated is an error for what the shipped manifests do not use.
func untranslated(c core.Container) error {
	for _, variable := range c.Env {
		if variable.ValueFrom != nil {
			return fmt.Errorf("the variable %s has a source, which is not translated", variable.Name)
		}
	}
	switch {
	case len(c.EnvFrom) > 0:
		return fmt.Errorf("envFrom is not translated")
	case c.WorkingDir != "":
		return fmt.Errorf("workingDir is not translated")
	case c.Lifecycle != nil:
		return fmt.Errorf("lifecycle is not translated")
	case c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged):
		return fmt.Errorf("privileged is not translated")
	}
	return nil
}

// security is a container's context, with what it takes over from the Pod's.
func security(pod *core.PodSecurityContext, own *core.SecurityContext) core.SecurityContext {
	var context core.SecurityContext
	if own != nil {
		context = *own
	}
	if pod == nil {
		return context
	}
	if context.RunAsUser == nil {
		context.RunAsUser = pod.RunAsUser
	}
	if context.RunAsGroup == nil {
		context.RunAsGroup = pod.RunAsGroup
	}
	if context.RunAsNonRoot == nil {
		context.RunAsNonRoot = pod.RunAsNonRoot
	}
	if context.SeccompProfile == nil {
		context.SeccompProfile = pod.SeccompProfile
	}
	return context
}

// user is that of the context, or else of the image, which is root.
func (p *Pod) user(from image, context core.SecurityContext) (specs.User, error) {
	var user specs.User
	if context.RunAsUser != nil {
		user.UID = uint32(*context.RunAsUser)
	}
	if user.UID == 0 && isTrue(context.RunAsNonRoot) {
		return user, fmt.Errorf("runAsNonRoot, but the image runs as root")
	}
	gid, err := from.group(user.UID)
	user.GID = gid
	if context.RunAsGroup != nil {
		user.GID = uint32(*context.RunAsGroup)
	}
	user.AdditionalGids = []uint32{user.GID}
	if pod := p.manifest.Spec.SecurityContext; pod != nil && pod.FSGroup != nil {
		user.AdditionalGids = append(user.AdditionalGids, uint32(*pod.FSGroup))
	}
	return user, err
}

func capabilitiesOf(changed *core.Capabilities) []string {
	if changed == nil {
		return granted
	}
	var capabilities []string
	if !slices.Contains(changed.Drop, "ALL") {
		capabilities = slices.Clone(granted)
	}
	for _, dropped := range changed.Drop {
		capabilities = slices.DeleteFunc(capabilities, func(name string) bool { return name == "CAP_"+string(dropped) })
	}
	for _, added := range changed.Add {
		capabilities = append(capabilities, "CAP_"+string(added))
	}
	return capabilities
}

// filter adds the seccomp profile; some of its rules depend on the capabilities.
func filter(spec *specs.Spec, profile *core.SeccompProfile) error {
	if profile == nil || profile.Type == core.SeccompProfileTypeUnconfined {
		return nil
	}
	if profile.Type != core.SeccompProfileTypeRuntimeDefault {
		return fmt.Errorf("the seccomp profile %s is not translated", profile.Type)
	}
	rules, err := seccomp.GetDefaultProfile(spec)
	spec.Linux.Seccomp = rules
	return err
}

func (p *Pod) environment(from image, variables []core.EnvVar) []string {
	// The mark lets the guard of the run find the container.
	environment := []string{from.path, "HOSTNAME=pod", p.mark}
	for _, variable := range variables {
		environment = append(environment, variable.Name+"="+variable.Value)
	}
	return environment
}

func isTrue(value *bool) bool { return value != nil && *value }
