// Package plugin writes ConfigManagementPlugin definitions as users do.
package plugin

import (
	"fmt"
	"strings"
)

// Definition is one plugin.
type Definition struct {
	Name    string
	Version string
	// Spec is the YAML below `spec:`, not indented, without the version.
	Spec string
}

// Socket is the file name on which Argo CD expects the plugin.
func (d Definition) Socket() string { return d.FullName() + ".sock" }

// FullName is what an Application writes into `plugin.name`.
func (d Definition) FullName() string {
	if d.Version == "" {
		return d.Name
	}
	return d.Name + "-" + d.Version
}

// YAML is the whole definition.
func (d Definition) YAML() string {
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
