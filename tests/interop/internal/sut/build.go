package sut

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build compiles one of this module's commands into .bin, where the next run
// finds it again, and returns its path.
func Build(module, name string) (string, error) {
	target := filepath.Join(module, ".bin", name)
	command := exec.Command("go", "build", "-buildvcs=false", "-o", target, "./cmd/"+name)
	command.Dir = module
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", name, err, output)
	}
	return target, nil
}
