// Package plugin writes ConfigManagementPlugin definitions as users do.
package plugin

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Definition is the definition of one plugin.
type Definition struct {
	Name    string
	Version string
	// Spec is the YAML below `spec:`, without indentation and version.
	Spec string
	// Text is the whole definition as its author wrote it; it replaces Spec.
	Text string
}

// Written is a definition as its author wrote it.
func Written(text string) (Definition, error) {
	var header struct {
		Metadata struct{ Name string }
		Spec     struct{ Version string }
	}
	err := yaml.Unmarshal([]byte(text), &header)
	return Definition{Name: header.Metadata.Name, Version: header.Spec.Version, Text: text}, err
}

// Socket is the file name that Argo CD expects for the plugin's socket.
func (d Definition) Socket() string { return d.FullName() + ".sock" }

// FullName is the name that an Application uses in `plugin.name`.
func (d Definition) FullName() string {
	if d.Version == "" {
		return d.Name
	}
	return d.Name + "-" + d.Version
}

// YAML is the whole definition.
func (d Definition) YAML() string {
	if d.Text != "" {
		return d.Text
	}
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata:\n  name: %q\nspec:\n", d.Name)
	if d.Version != "" {
		fmt.Fprintf(&text, "  version: %q\n", d.Version)
	}
	for line := range strings.Lines(strings.Trim(d.Spec, "\n") + "\n") {
		text.WriteString("  " + line)
	}
	return text.String()
}

// Shell is a plugin without discovery whose generate command is a shell script.
func Shell(name, script string) Definition {
	return Definition{Name: name, Spec: fmt.Sprintf("generate:\n  command: [sh, -c]\n  args: [%q]\n", script)}
}
