// Package pod runs the sidecar of a rendered manifest with runc, as a kubelet and
// containerd would. A field that it does not translate is an error.
package pod

import (
	"fmt"
	"slices"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// sidecarName is the container that the tests are about.
const sidecarName = "cmp-supervisor"

// prefix is that of our init containers. Those of Argo CD are not started.
const prefix = "cmp-"

// Manifest is a Pod with the objects that its volumes name.
type Manifest struct {
	Spec core.PodSpec
	// Objects are the ConfigMaps and Secrets by kind and name, each with its texts.
	Objects map[string]map[string]string
}

// argoCD is the part of argocd-operator's resource that becomes the Pod.
type argoCD struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Repo struct {
			InitContainers    []core.Container `json:"initContainers"`
			SidecarContainers []core.Container `json:"sidecarContainers"`
			Volumes           []core.Volume    `json:"volumes"`
		} `json:"repo"`
	} `json:"spec"`
}

// Read decodes a manifest that has the sidecar.
func Read(text string) (Manifest, error) {
	m, err := Decode(text)
	if err == nil && len(m.started()) == 0 {
		err = fmt.Errorf("the manifest has no container %s", sidecarName)
	}
	return m, err
}

// Decode decodes all objects of a manifest with Kubernetes' own types; an unknown field
// is an error. It ignores the objects that are no part of a Pod.
func Decode(text string) (Manifest, error) {
	m := Manifest{Objects: map[string]map[string]string{}}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var kind meta.TypeMeta
		err := yaml.Unmarshal([]byte(document), &kind)
		if err == nil {
			err = m.add(kind.Kind, []byte(document))
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
	return m, nil
}

func (m *Manifest) add(kind string, document []byte) error {
	switch kind {
	case "Deployment":
		var deployment apps.Deployment
		err := yaml.UnmarshalStrict(document, &deployment)
		m.Spec = deployment.Spec.Template.Spec
		return err
	case "ArgoCD":
		var resource argoCD
		err := yaml.UnmarshalStrict(document, &resource)
		repo := resource.Spec.Repo
		m.Spec.InitContainers, m.Spec.Containers = repo.InitContainers, repo.SidecarContainers
		// The operator has the volume for sockets itself.
		m.Spec.Volumes = append(repo.Volumes, core.Volume{Name: "plugins", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}})
		return err
	case "ConfigMap":
		var configMap core.ConfigMap
		err := yaml.UnmarshalStrict(document, &configMap)
		m.Objects[kind+" "+configMap.Name] = configMap.Data
		return err
	case "Secret":
		var secret core.Secret
		err := yaml.UnmarshalStrict(document, &secret)
		texts := map[string]string{}
		for key, value := range secret.Data {
			texts[key] = string(value)
		}
		m.Objects[kind+" "+secret.Name] = texts
		return err
	}
	return nil
}

// started lists the containers to start: our init containers in their order, and the
// sidecar as the last one.
func (m *Manifest) started() []core.Container {
	var ours []core.Container
	for _, container := range slices.Concat(m.Spec.InitContainers, m.Spec.Containers) {
		if container.Name == sidecarName {
			return append(ours, container)
		}
		if strings.HasPrefix(container.Name, prefix) {
			ours = append(ours, container)
		}
	}
	return nil
}

// hostUsers is false if the Pod has a user namespace.
func (m *Manifest) hostUsers() bool { return m.Spec.HostUsers == nil || *m.Spec.HostUsers }

// Choose gives the Pod the UID and the group of volumes that OpenShift chooses.
func (m *Manifest) Choose(uid int64) {
	m.Spec.SecurityContext = &core.PodSecurityContext{RunAsUser: &uid, FSGroup: &uid}
}
