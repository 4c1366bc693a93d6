package interop

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/pod"

	core "k8s.io/api/core/v1"
)

// argoCDs are modules whose manifests the components must fit.
var argoCDs = []string{"v2@v2.14.21", "v3@v3.0.23", "v3@v3.2.12", "v3@v3.5.7", "v3@v3.6.1"}

// installations are ways to install Argo CD; some have the same repo-server.
var installations = []string{"install.yaml", "namespace-install.yaml", "core-install.yaml", "ha/install.yaml"}

// components are lists that people use together.
var components = [][]string{
	{"sidecar", "tools", "uid"},
	{"sidecar", "tools", "restricted"},
	{"sidecar", "tools", "namespaces", "tools-image-volume"},
	{"sidecar", "tools", "uid", "tools-init-container", "git-credentials"},
	{"sidecar-ordinary"},
}

// manifestsOf are the manifests of one version of Argo CD.
func manifestsOf(t *testing.T, version string) fs.FS {
	t.Helper()
	name := "github.com/argoproj/argo-cd/" + version
	command := exec.Command("go", "mod", "download", "-json", name)
	command.Dir = t.TempDir()
	output, err := command.Output()
	var module struct{ Zip string }
	// It fails for a version that a later Go builds, whose files are there all the same.
	if json.Unmarshal(output, &module) != nil || module.Zip == "" {
		lacks(t, "the module of Argo CD %s cannot be downloaded: %v: %s", version, err, output)
	}
	archive, err := zip.OpenReader(module.Zip)
	must(t, err)
	t.Cleanup(func() { _ = archive.Close() })
	manifests, err := fs.Sub(archive, name+"/manifests")
	must(t, err)
	return manifests
}

// repoServerOf is the repo-server's Deployment in a manifest of Argo CD.
func repoServerOf(t *testing.T, manifests fs.FS, file string) string {
	t.Helper()
	text, err := fs.ReadFile(manifests, file)
	must(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: Deployment\n") && strings.Contains(document, "\n  name: argocd-repo-server\n") {
			return document
		}
	}
	t.Fatalf("%s has no repo-server", file)
	return ""
}

// composed renders a Deployment with components.
func composed(t *testing.T, kustomize, deployment string, names []string) string {
	t.Helper()
	directory := t.TempDir()
	shared, err := filepath.Abs(filepath.Join(deployDir, "kustomize/components"))
	must(t, err)
	shared, err = filepath.Rel(directory, shared)
	must(t, err)
	kustomization := "resources: [repo-server.yaml]\ncomponents:\n"
	for _, name := range names {
		kustomization += fmt.Sprintf("- %s\n", filepath.Join(shared, name))
	}
	must(t, os.WriteFile(filepath.Join(directory, "repo-server.yaml"), []byte(deployment), 0o644))
	must(t, os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(kustomization), 0o644))
	return outputOf(t, "", kustomize, "build", directory)
}

func TestComponentsFitArgoCDsOwnManifests(t *testing.T) {
	kustomize := filepath.Join(toolsDir, "bin/kustomize")
	if _, err := os.Stat(kustomize); err != nil {
		lacks(t, "kustomize is missing: run tests/tools/build")
	}
	seen := map[string]bool{}
	for _, version := range argoCDs {
		manifests := manifestsOf(t, version)
		for _, installation := range installations {
			deployment := repoServerOf(t, manifests, installation)
			if seen[deployment] {
				continue
			}
			seen[deployment] = true
			before, err := pod.Decode(deployment)
			must(t, err)
			for _, names := range components {
				t.Run(fmt.Sprintf("%s %s %v", version, installation, names), func(t *testing.T) {
					after, err := pod.Read(composed(t, kustomize, deployment, names))
					must(t, err)
					keeps(t, before.Spec, after.Spec)
					isWhole(t, after.Spec)
				})
			}
		}
	}
}

// keeps checks that Argo CD's own containers and volumes are still there.
func keeps(t *testing.T, before, after core.PodSpec) {
	t.Helper()
	for _, container := range slices.Concat(before.InitContainers, before.Containers) {
		at := slices.IndexFunc(slices.Concat(after.InitContainers, after.Containers), func(c core.Container) bool {
			return c.Name == container.Name && c.Image == container.Image && slices.Equal(c.Args, container.Args)
		})
		if at < 0 {
			t.Errorf("expected Argo CD's container %s, got %v", container.Name, after)
		}
	}
	for _, volume := range before.Volumes {
		if !slices.ContainsFunc(after.Volumes, func(v core.Volume) bool { return v.Name == volume.Name }) {
			t.Errorf("expected Argo CD's volume %s, got %v", volume.Name, after.Volumes)
		}
	}
}

// isWhole checks that all names of volumes and containers fit together.
func isWhole(t *testing.T, spec core.PodSpec) {
	t.Helper()
	names := map[string]int{}
	for _, volume := range spec.Volumes {
		names["volume "+volume.Name]++
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		names["container "+container.Name]++
		paths := map[string]bool{}
		for _, mount := range container.VolumeMounts {
			if names["volume "+mount.Name] == 0 || paths[mount.MountPath] {
				t.Errorf("%s: the mount of %s at %s has no volume, or is there twice", container.Name, mount.Name, mount.MountPath)
			}
			paths[mount.MountPath] = true
		}
	}
	for name, times := range names {
		if times > 1 {
			t.Errorf("%s is there %d times", name, times)
		}
	}
}
