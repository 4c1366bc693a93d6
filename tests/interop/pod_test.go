package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/pod"
	"cmp-supervisor/tests/interop/internal/proc"
	"cmp-supervisor/tests/interop/internal/sut"
	"cmp-supervisor/tests/interop/internal/tree"
)

// deployDir has the manifests, as seen from this directory.
const deployDir = "../../deploy"

// randomUID is one that OpenShift could choose for a project.
const randomUID = 1000680000

// deployment is a way to deploy, with the rights that its sidecar then has.
type deployment struct {
	name string
	// resource is an overlay, or a resource of argocd-operator.
	resource string
	// kind is that of the object with the container.
	kind string
	// container and volumes are the places of both in the object.
	container, volumes string
	// chosen is the UID that the cluster chooses, or 0 for that of the manifest.
	chosen int64
	// tier and capabilities are what the sidecar has.
	tier         string
	capabilities uint64
}

// Capabilities as bits: KILL, SETGID, SETUID, SYS_CHROOT and SYS_ADMIN.
const (
	threeCapabilities = 1<<5 | 1<<6 | 1<<7
	fiveCapabilities  = threeCapabilities | 1<<18 | 1<<21
)

// Places of the sidecar and of volumes.
const (
	podOfDeployment = "/spec/template/spec/"
	podOfOperator   = "/spec/repo/"
)

var deployments = []deployment{
	{
		name: "root with three capabilities", resource: "kustomize/overlays/production", kind: "Deployment",
		container: podOfDeployment + "initContainers/-1", volumes: podOfDeployment + "volumes",
		tier: "uid", capabilities: threeCapabilities,
	},
	{
		name: "UID 999 without capabilities", resource: "kustomize/overlays/restricted", kind: "Deployment",
		container: podOfDeployment + "initContainers/-1", volumes: podOfDeployment + "volumes", tier: "landlock",
	},
	{
		name: "OpenShift's UID", resource: "operator/argocd.yaml", kind: "ArgoCD",
		container: podOfOperator + "sidecarContainers/-1", volumes: podOfOperator + "volumes",
		chosen: randomUID, tier: "landlock",
	},
	{
		name: "user namespace", resource: "kustomize/overlays/namespaces", kind: "Deployment",
		container: podOfDeployment + "initContainers/-1", volumes: podOfDeployment + "volumes",
		tier: "namespaces", capabilities: fiveCapabilities,
	},
}

// podTools are the programs that the definitions of the test use.
var podTools = []string{"helm", "kustomize", "sops", "ksops", "age-keygen", "jq"}

// podPrograms finds the files for images, or skips the test.
func podPrograms(t *testing.T) pod.Programs {
	t.Helper()
	if os.Geteuid() != 0 {
		lacks(t, "needs root, to start containers")
	}
	needsProgram(t, "runc", "runc")
	programs := pod.Programs{Supervisor: needsOurs(t).Binary, Busybox: needsProgram(t, "busybox", "busybox-static")}
	if !pod.HasLimits() {
		t.Log("skipped: containers without limits, because the cgroups of this machine cannot be changed")
	}
	for _, name := range podTools {
		tool, err := exec.LookPath(name)
		if err != nil {
			lacks(t, "%s is missing: run tests/tools/build, or install it", name)
		}
		programs.Tools = append(programs.Tools, tool)
	}
	return programs
}

// only keeps examples, or skips the test if the tools of one are missing.
func (s shop) only(t *testing.T, names ...string) shop {
	t.Helper()
	kept := shop{files: s.files, key: s.key}
	for _, name := range names {
		for i, e := range s.examples {
			if e.name == name {
				kept.examples = append(kept.examples, e)
				kept.definitions = append(kept.definitions, s.definitions[i])
			}
		}
	}
	if len(kept.examples) != len(names) {
		lacks(t, "tools of %q are missing: run tests/tools/build", names)
	}
	return kept
}

// kustomized renders the resource with what a user adds: definitions in the ConfigMap,
// and a Secret with a key.
func (d deployment) kustomized(t *testing.T, definitions map[string]string, key, more string) string {
	t.Helper()
	directory := t.TempDir()
	resource, err := filepath.Abs(filepath.Join(deployDir, d.resource))
	must(t, err)
	resource, err = filepath.Rel(directory, resource)
	must(t, err)
	// An overlay has a ConfigMap already.
	behavior := "create"
	if d.kind == "Deployment" {
		behavior = "merge"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "namespace: argocd\nresources: [%s]\ngeneratorOptions: {disableNameSuffixHash: true}\n", resource)
	fmt.Fprintf(&text, "secretGenerator: [{name: sops-age, files: [age.txt]}]\nconfigMapGenerator:\n- name: argocd-cmp-plugins\n  behavior: %s\n  files:\n", behavior)
	for name, definition := range definitions {
		must(t, os.WriteFile(filepath.Join(directory, name), []byte(definition), 0o644))
		fmt.Fprintf(&text, "  - %s\n", name)
	}
	fmt.Fprintf(&text, "patches:\n- target: {kind: %s}\n  patch: |-\n", d.kind)
	fmt.Fprintf(&text, "    - {op: add, path: %s/volumeMounts/-, value: {name: keys, mountPath: /keys, readOnly: true}}\n", d.container)
	fmt.Fprintf(&text, "    - {op: add, path: %s/-, value: {name: keys, secret: {secretName: sops-age}}}\n%s", d.volumes, more)
	must(t, os.WriteFile(filepath.Join(directory, "age.txt"), []byte(key), 0o600))
	must(t, os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(text.String()), 0o644))
	// The operator's resource is a file outside the directory.
	return outputOf(t, "", "kustomize", "build", "--load-restrictor", "LoadRestrictionsNone", directory)
}

// shipped are definitions as plugins.d has them.
func shipped(t *testing.T, examples []example) map[string]string {
	t.Helper()
	definitions := map[string]string{}
	for _, e := range examples {
		text, err := os.ReadFile(filepath.Join(pluginsDir, e.name+".yaml"))
		must(t, err)
		definitions[e.name+".yaml"] = string(text)
	}
	return definitions
}

// start runs the sidecar of a rendered manifest.
func (d deployment) start(t *testing.T, rendered string, programs pod.Programs) (subject, *pod.Pod) {
	t.Helper()
	manifest, err := pod.Read(rendered)
	if err != nil {
		t.Fatalf("%v in\n%s", err, rendered)
	}
	if d.chosen != 0 {
		manifest.Choose(d.chosen)
	}
	// Not in memory, because plugins never read there.
	started, err := pod.Start(manifest, programs, "/var/tmp", proc.Mark(scratch))
	if err != nil {
		t.Fatal(err)
	}
	return stopped(t, started), started
}

// keyOf is the key that encrypted the shop's Secrets.
func keyOf(t *testing.T, s shop) string {
	t.Helper()
	key, err := os.ReadFile(s.key)
	must(t, err)
	return string(key)
}

func TestPodsRenderToolsThroughTheRepoServer(t *testing.T) {
	needsOurs(t)
	cache := redis(t)
	s := openShop(t).only(t, "helm", "kustomize", "sops")
	programs := podPrograms(t)
	named, discovered := s.delivery(t, peer(t, s.definitions...), cache, gitRepository(t, s.files))
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			rendered := d.kustomized(t, shipped(t, s.examples), keyOf(t, s), "")
			server, running := d.start(t, rendered, programs)
			d.hasItsRights(t, running)
			url := gitRepositoryOf(t, running.Account(), s.files)
			gotNamed, gotDiscovered := s.delivery(t, server, cache, url)
			s.equal(t, gotNamed, named)
			s.equal(t, gotDiscovered, discovered)

			added := plugin.Shell("added", "echo 'kind: Added'")
			must(t, server.Add(added))
			appears(t, server, added)
			got, err := server.generate(t, added, repositoryOf(t, tree.Files{"x": "x"}))
			if err != nil || strings.Join(got, "") != `{"kind":"Added"}` {
				t.Errorf("expected the added plugin's manifest, got %q (%v)", got, err)
			}
		})
	}
}

// hasItsRights checks that the container has what the manifest asks for, as the kernel
// and the sidecar see it.
func (d deployment) hasItsRights(t *testing.T, running *pod.Pod) {
	t.Helper()
	pid, err := running.PID()
	must(t, err)
	for _, entry := range proc.Tree(pid) {
		status := proc.StatusOf(entry.Pid)
		if status == nil && entry.Pid != pid {
			// It was one of those that stand by, and too many.
			continue
		}
		bounding := status.Bits("CapBnd")
		if bounding&^d.capabilities != 0 || status["Seccomp"] != "2" {
			t.Errorf("%s: expected at most the capabilities %x and a filter, got %x and Seccomp %q", entry, d.capabilities, bounding, status["Seccomp"])
		}
	}
	root := fmt.Sprintf("/proc/%d/root/written", pid)
	if err := os.WriteFile(root, nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("expected a read-only root, got %v", err)
	}
	metrics, err := running.Get(metricsPort, "/metrics")
	must(t, err)
	wanted := []string{fmt.Sprintf("argocd_cmp_isolation{isolation=%q} 1", d.tier)}
	if pod.HasLimits() {
		wanted = append(wanted, fmt.Sprintf("argocd_cmp_container_limit{resource=\"memory\"} %d", 2<<30),
			fmt.Sprintf("argocd_cmp_container_limit{resource=\"processes\"} %d", pod.PIDs))
	}
	for _, line := range wanted {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("expected the metric %s, got\n%s", line, metrics)
		}
	}
}

// metricsPort is the sidecar's.
const metricsPort = 9180

// asArgoCDs makes the sidecar of an overlay start as argocd-cmp-server, with one plugin
// in the place that Argo CD's documentation names.
const asArgoCDs = `    - {op: replace, path: SIDECAR/command, value: [/var/run/cmp/argocd-cmp-server]}
    - {op: remove, path: SIDECAR/args}
    - {op: remove, path: SIDECAR/startupProbe}
    - {op: remove, path: SIDECAR/livenessProbe}
    - {op: test, path: SIDECAR/volumeMounts/1/name, value: cmp-plugins}
    - op: replace
      path: SIDECAR/volumeMounts/1
      value: {name: cmp-plugins, mountPath: /home/argocd/cmp-server/config/plugin.yaml, subPath: plugin.yaml}
`

func TestAPodOfOnePluginStartsAsArgoCDsServer(t *testing.T) {
	needsOurs(t)
	cache := redis(t)
	s := openShop(t).only(t, "sops")
	programs := podPrograms(t)
	d := deployments[1]
	definitions := map[string]string{"plugin.yaml": shipped(t, s.examples)["sops.yaml"]}
	rendered := d.kustomized(t, definitions, keyOf(t, s), strings.ReplaceAll(asArgoCDs, "SIDECAR", d.container))
	server, running := d.start(t, rendered, programs)
	must(t, sut.Ready(server, s.definitions[0]))

	pid, err := running.PID()
	must(t, err)
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // Compared below.
	ids := strings.Fields(proc.StatusOf(pid)["NSpid"])
	if !strings.HasPrefix(string(name), "/var/run/cmp/argocd-cmp-server\x00") || ids[len(ids)-1] != "1" {
		t.Errorf("expected argocd-cmp-server as process 1, got %q as %v", name, ids)
	}
	named, discovered := s.delivery(t, peer(t, s.definitions...), cache, gitRepository(t, s.files))
	gotNamed, gotDiscovered := s.delivery(t, server, cache, gitRepositoryOf(t, running.Account(), s.files))
	s.equal(t, gotNamed, named)
	s.equal(t, gotDiscovered, discovered)

	must(t, syscall.Kill(pid, syscall.SIGTERM))
	if code, err := running.Process().Exit(callWithin); err != nil || code != 0 {
		t.Errorf("expected it to end with the exit code 0 after SIGTERM, got %d (%v)", code, err)
	}
}
