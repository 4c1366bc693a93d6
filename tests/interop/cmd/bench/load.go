package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"
)

// The two repositories: a usual application, and a monorepo that compresses to
// a third of its size.
const (
	smallFiles, smallBytes = 20, 1 << 10
	largeFiles, largeBytes = 7000, 10800
	filesPerDirectory      = 20
)

// command is the command of every measurement: a shell that prints the 20 files of
// the application.
var command = []string{"sh", "-c", "cat *.yaml"}

// generates is the part of a definition that runs it.
var generates = "generate: {command: [" + strings.Join(command, ", ") + "]}\n"

// measured is the plugin of every measurement for which nothing else is said.
var measured = plugin.Definition{Name: "measured", Spec: generates + "discover: {fileName: app.yaml}"}

// globbed is the same plugin, but discovers by a glob.
var globbed = plugin.Definition{Name: "globbed", Spec: generates + "discover: {find: {glob: '**/app.yaml'}}"}

// sliced is the same plugin, but has only the application's directory unpacked.
// The peer ignores this and unpacks everything.
var sliced = plugin.Definition{Name: "sliced", Spec: generates + "workspace: {include: [\".\"]}"}

// reading is the same plugin, but changes nothing in the repository, so that its
// requests may share it. The peer ignores this and unpacks everything.
var reading = plugin.Definition{Name: "reading", Spec: generates + "workspace: {readOnly: true}"}

// load is one repository, packed in advance, because packing is the client's work.
type load struct {
	files, unpacked int
	packed          client.Packed
}

type loads struct {
	small, large load
	alone        *alone
}

func newLoads(directory string) (loads, error) {
	small, err := newLoad(filepath.Join(directory, "small"), smallFiles, smallBytes)
	if err != nil {
		return loads{}, err
	}
	large, err := newLoad(filepath.Join(directory, "large"), largeFiles, largeBytes)
	if err != nil {
		return loads{}, err
	}
	alone, err := newAlone(filepath.Join(directory, "alone"))
	return loads{small, large, alone}, err
}

func newLoad(root string, files, bytes int) (load, error) {
	if err := writeFiles(root, files, bytes); err != nil {
		return load{}, err
	}
	packed, err := client.App{Root: root, Path: filepath.Join(root, applicationDirectory)}.Pack()
	if err != nil {
		return load{}, err
	}
	// From here on, only the archive is needed.
	return load{files, files * bytes, packed}, os.RemoveAll(root)
}

// writeFiles writes a repository.
func writeFiles(root string, files, bytes int) error {
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	contents := tree.Files{applicationDirectory + "/app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\ndata:\n" + lines(newSource(0), bytes)}
	for i := 1; i < files; i++ {
		contents[fmt.Sprintf("%s/file-%d.yaml", directory(i), i)] = "data:\n" + lines(newSource(i), bytes)
	}
	return tree.Write(root, contents)
}

// applicationDirectory is where the application is in its repository.
var applicationDirectory = directory(0)

// directory is the directory of a file. The first one is the application's.
func directory(file int) string { return fmt.Sprintf("dir-%03d", file/filesPerDirectory) }

// newSource makes all files different, but equal in every run.
func newSource(file int) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(file))) }

// lines is YAML that compresses to about a third of its size.
func lines(source *rand.Rand, bytes int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	const perLine = 25
	var text strings.Builder
	for text.Len() < bytes {
		text.WriteString("  a-setting-with-a-usual-name-")
		for range perLine {
			text.WriteByte(alphabet[source.IntN(len(alphabet))])
		}
		text.WriteString(": enabled\n")
	}
	return text.String()[:strings.LastIndexByte(text.String(), '\n')+1]
}
