// Package tree creates the repositories that are sent to a server.
package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files maps slash-separated paths to content. Content that starts with "-> "
// becomes a symbolic link, and content that starts with "#!" is executable. A
// path that ends in "/" becomes a directory.
type Files map[string]string

// linkTo marks a symbolic link's target.
const linkTo = "-> "

// Write creates the files below an existing directory.
func Write(root string, files Files) error {
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if err := write(filepath.Join(root, path), path, files[path]); err != nil {
			return fmt.Errorf("cannot make %s: %w", path, err)
		}
	}
	return nil
}

func write(target, path, content string) error {
	if strings.HasSuffix(path, "/") {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if link, isLink := strings.CutPrefix(content, linkTo); isLink {
		return os.Symlink(link, target)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(content, "#!") {
		mode = 0o755
	}
	if err := os.WriteFile(target, []byte(content), mode); err != nil {
		return err
	}
	// Sets the mode exactly, regardless of the umask.
	return os.Chmod(target, mode)
}
