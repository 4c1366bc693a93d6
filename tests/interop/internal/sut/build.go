package sut

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Reachable copies a binary to a directory that every UID can enter, if the
// caller is root and the binary may be in a closed directory.
func Reachable(binary, directory string) (string, error) {
	if os.Geteuid() != 0 {
		return binary, nil
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	copied := filepath.Join(directory, filepath.Base(binary))
	return copied, os.WriteFile(copied, content, 0o755)
}

// Build compiles one of this module's commands into .bin, where the next run
// finds it, and returns its path.
func Build(module, name string) (string, error) {
	target := filepath.Join(module, ".bin", name)
	command := exec.Command("go", "build", "-buildvcs=false", "-o", target, "./cmd/"+name)
	command.Dir = module
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", name, err, output)
	}
	return target, nil
}
