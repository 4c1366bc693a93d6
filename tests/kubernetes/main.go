// Decodes objects strictly, with the types of one version of Kubernetes. Each line
// of standard input is an object as JSON; each line of output is the answer for it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	strict "sigs.k8s.io/json"
)

// maxLine is the largest object.
const maxLine = 1 << 20

type answer struct {
	// Unknown has the paths of fields that this version does not know.
	Unknown []string `json:"unknown"`
	// Error says why the object is refused whatever its fields.
	Error string `json:"error"`
	// Level is the strictest Pod Security standard that the Pods of the object fit.
	Level api.Level `json:"level"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	encoder := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := encoder.Encode(decode(lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func decode(text []byte) answer {
	object, err := empty(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	var result answer
	found, err := strict.UnmarshalStrict(text, object)
	if err != nil {
		result.Error = err.Error()
	}
	for _, err := range found {
		path, isUnknown := strings.CutPrefix(err.Error(), `unknown field "`)
		if isUnknown {
			result.Unknown = append(result.Unknown, strings.TrimSuffix(path, `"`))
		} else {
			result.Error = err.Error()
		}
	}
	if deployment, ok := object.(*apps.Deployment); ok {
		result.Level = level(deployment.Spec.Template)
	}
	return result
}

// empty returns a value of the object's type.
func empty(text []byte) (any, error) {
	var kind meta.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	types := map[string]any{
		"apps/v1 Deployment":                     &apps.Deployment{},
		"autoscaling/v2 HorizontalPodAutoscaler": &autoscaling.HorizontalPodAutoscaler{},
		"networking.k8s.io/v1 NetworkPolicy":     &networking.NetworkPolicy{},
		"policy/v1 PodDisruptionBudget":          &policyv1.PodDisruptionBudget{},
		"v1 ConfigMap":                           &core.ConfigMap{},
		"v1 Pod":                                 &core.Pod{},
	}
	name := kind.APIVersion + " " + kind.Kind
	object, ok := types[name]
	if !ok {
		return nil, errors.New("no type for " + name)
	}
	return object, nil
}

// level returns the strictest Pod Security standard that the template fits. Restricted
// checks are stricter than the baseline checks that they replace, so all may be made.
func level(template core.PodTemplateSpec) api.Level {
	strictest := api.LevelRestricted
	for _, check := range policy.DefaultChecks() {
		newest := check.Versions[len(check.Versions)-1]
		if newest.CheckPod(&template.ObjectMeta, &template.Spec).Allowed {
			continue
		}
		if check.Level == api.LevelBaseline {
			return api.LevelPrivileged
		}
		strictest = api.LevelBaseline
	}
	return strictest
}
