// Package volume writes ConfigMap volumes as kubelet does.
package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
)

// Volume is a directory that shows a ConfigMap.
type Volume struct {
	directory string
	updates   int
	shown     map[string]bool
}

// New creates an empty volume in an existing directory.
func New(directory string) *Volume { return &Volume{directory: directory, shown: map[string]bool{}} }

// Payload maps keys to texts of definitions.
func Payload(definitions ...plugin.Definition) map[string]string {
	payload := map[string]string{}
	for _, d := range definitions {
		payload[d.FullName()+".yaml"] = d.YAML()
	}
	return payload
}

// Update shows a new payload and returns the time of the switch. It writes files
// into a new directory, renames `..data`, updates the visible names, and removes
// the old directory.
func (v *Volume) Update(payload map[string]string) (time.Time, error) {
	v.updates++
	fresh := fmt.Sprintf("..2026_11_20_04_15_11.%d", v.updates)
	if err := v.write(fresh, payload); err != nil {
		return time.Time{}, err
	}
	data, staged := filepath.Join(v.directory, "..data"), filepath.Join(v.directory, "..data_tmp")
	old, _ := os.Readlink(data) // There is none at first.
	if err := os.Symlink(fresh, staged); err != nil {
		return time.Time{}, err
	}
	switched := time.Now()
	if err := os.Rename(staged, data); err != nil {
		return time.Time{}, err
	}
	if err := v.show(payload); err != nil {
		return time.Time{}, err
	}
	if old == "" {
		return switched, nil
	}
	return switched, os.RemoveAll(filepath.Join(v.directory, old))
}

func (v *Volume) write(generation string, payload map[string]string) error {
	directory := filepath.Join(v.directory, generation)
	if err := os.Mkdir(directory, 0o755); err != nil {
		return err
	}
	for key, text := range payload {
		if err := os.WriteFile(filepath.Join(directory, key), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (v *Volume) show(payload map[string]string) error {
	for key := range payload {
		if v.shown[key] {
			continue
		}
		if err := os.Symlink(filepath.Join("..data", key), filepath.Join(v.directory, key)); err != nil {
			return err
		}
		v.shown[key] = true
	}
	for key := range v.shown {
		if _, stays := payload[key]; stays {
			continue
		}
		if err := os.Remove(filepath.Join(v.directory, key)); err != nil {
			return err
		}
		delete(v.shown, key)
	}
	return nil
}
