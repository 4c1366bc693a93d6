package interop

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
)

// Directories of the repository, as seen from this one.
const (
	pluginsDir  = "../../plugins.d"
	examplesDir = "../../plugins.d/examples"
	toolsDir    = "../../target/tools"
	nodeModules = toolsDir + "/node/node_modules"
)

// example is a definition of plugins.d with the application that belongs to it.
type example struct {
	name string
	// programs are those that it needs besides a shell, and modules of Node.js.
	programs []string
	// source is what the Application sets, without the name of the plugin.
	source v1alpha1.ApplicationSourcePlugin
	// isDiscovered is false for plugins that Applications must name.
	isDiscovered bool
	// contains is a text that only its tool can have printed.
	contains string
}

func text(value string) *string { return &value }

// examples are all definitions whose manifests do not depend on the request's UID,
// except argocd-vault-plugin, which needs a Vault.
var examples = []example{
	{name: "concat", contains: "Deployment"},
	{name: "template", isDiscovered: true, contains: "welcome", source: v1alpha1.ApplicationSourcePlugin{
		Parameters: v1alpha1.ApplicationSourcePluginParameters{{Name: "greeting", String_: text("welcome")}},
	}},
	{name: "helm", programs: []string{"helm", "jq"}, contains: `"example.com/team":"a b"`, source: v1alpha1.ApplicationSourcePlugin{
		Parameters: v1alpha1.ApplicationSourcePluginParameters{
			{Name: "values-files", OptionalArray: &v1alpha1.OptionalArray{Array: []string{"values-production.yaml"}}},
			{Name: "values", OptionalMap: &v1alpha1.OptionalMap{Map: map[string]string{"image.tag": "v9", `annotations.example\.com/team`: "a b"}}},
		},
	}},
	{name: "kustomize", programs: []string{"kustomize", "helm", "sops", "ksops", "age-keygen"}, isDiscovered: true, contains: "correct horse"},
	{name: "helmfile", programs: []string{"helmfile", "helm", "sops", "age-keygen"}, isDiscovered: true, contains: "correct horse"},
	{name: "sops", programs: []string{"sops", "age-keygen"}, isDiscovered: true, contains: "correct horse"},
	{name: "jsonnet", programs: []string{"jsonnet"}, contains: "jsonnet-green"},
	{name: "tanka", programs: []string{"tk"}, isDiscovered: true, contains: "Service"},
	{name: "cue", programs: []string{"cue"}, isDiscovered: true, contains: "cue-green"},
	{name: "ytt", programs: []string{"ytt"}, isDiscovered: true, contains: "ytt-443"},
	{name: "cdk8s", programs: []string{"node", "cdk8s"}, isDiscovered: true, contains: "cdk8s-green"},
	{name: "envsubst", programs: []string{"envsubst"}, isDiscovered: true, contains: `"region":"eu"`, source: v1alpha1.ApplicationSourcePlugin{
		Env: v1alpha1.Env{{Name: "REGION", Value: "eu"}},
	}},
}

// shop has the tools, the key and the repository of the examples whose programs
// are on this machine.
type shop struct {
	examples    []example
	definitions []plugin.Definition
	files       tree.Files
	// key is the file with the key that encrypted the Secrets.
	key string
}

// openShop sets PATH, so all servers of the test find the tools.
func openShop(t *testing.T) shop {
	t.Helper()
	// Not in the scratch directory: plugins never read below /dev.
	place := openDirectory(t, "/tmp")
	t.Cleanup(func() { _ = os.RemoveAll(place) })
	provideTools(t, filepath.Join(place, "bin"))
	s := shop{files: tree.Files{}}
	for _, e := range examples {
		if missing := missingPrograms(e); len(missing) > 0 {
			if os.Getenv(testsWanted) == "all" {
				t.Fatalf("%s needs %q: run tests/tools/build", e.name, missing)
			}
			t.Logf("skipped: %s needs %q: run tests/tools/build", e.name, missing)
			continue
		}
		s.add(t, e, filepath.Join(place, "keys"))
	}
	s.encrypt(t, place)
	return s
}

// provideTools links the tools into a directory that every UID can enter.
func provideTools(t *testing.T, bin string) {
	t.Helper()
	must(t, os.Mkdir(bin, 0o755))
	tools, err := filepath.Glob(filepath.Join(toolsDir, "bin", "*"))
	must(t, err)
	for _, tool := range tools {
		link := filepath.Join(bin, filepath.Base(tool))
		if os.Link(tool, link) == nil {
			continue
		}
		content, err := os.ReadFile(tool)
		must(t, err)
		must(t, os.WriteFile(link, content, 0o755))
	}
	if _, err := os.Stat(nodeModules); err == nil {
		must(t, os.CopyFS(filepath.Join(bin, "node_modules"), os.DirFS(nodeModules)))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("NODE_PATH", filepath.Join(bin, "node_modules"))
}

func missingPrograms(e example) []string {
	var missing []string
	for _, program := range e.programs {
		_, err := exec.LookPath(program)
		_, notBuilt := os.Stat(filepath.Join(nodeModules, program))
		if err != nil && notBuilt != nil {
			missing = append(missing, program)
		}
	}
	return missing
}

// add reads a definition and its application. The keys have another place here.
func (s *shop) add(t *testing.T, e example, keys string) {
	t.Helper()
	written, err := os.ReadFile(filepath.Join(pluginsDir, e.name+".yaml"))
	must(t, err)
	definition, err := plugin.Written(strings.ReplaceAll(string(written), "/keys", keys))
	must(t, err)
	application := os.DirFS(filepath.Join(examplesDir, e.name))
	must(t, fs.WalkDir(application, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(application, path)
		s.files[e.directory()+"/"+path] = string(content)
		return err
	}))
	s.examples = append(s.examples, e)
	s.definitions = append(s.definitions, definition)
}

// directory is the path of the application in the repository.
func (e example) directory() string { return "apps/" + e.name }

// encrypt makes a key, and an encrypted Secret for each application that has a plain one.
func (s *shop) encrypt(t *testing.T, place string) {
	t.Helper()
	s.key = filepath.Join(place, "keys/age.txt")
	must(t, os.Mkdir(filepath.Dir(s.key), 0o755))
	for _, e := range s.examples {
		plain, isSecret := s.files[e.directory()+"/secret.plain"]
		if !isSecret {
			continue
		}
		if _, err := os.Stat(s.key); err != nil {
			outputOf(t, "", "age-keygen", "-o", s.key)
			// As in a volume of Kubernetes.
			must(t, os.Chmod(s.key, 0o644))
		}
		public := strings.TrimSpace(outputOf(t, "", "age-keygen", "-y", s.key))
		s.files[e.directory()+"/secret.enc.yaml"] = outputOf(t, plain, "sops", "--encrypt", "--age", public,
			"--input-type", "yaml", "--output-type", "yaml", "--encrypted-regex", "^(data|stringData)$", "/dev/stdin")
	}
}

// outputOf is the output of a program.
func outputOf(t *testing.T, input, program string, arguments ...string) string {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Stdin = strings.NewReader(input)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", program, arguments, err)
	}
	return string(output)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
