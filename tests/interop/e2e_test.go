package interop

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	repository "github.com/argoproj/argo-cd/v3/reposerver/apiclient"
)

// The plugins of the end-to-end tests: one is named, the other is discovered.
var (
	byName = plugin.Definition{Name: "cat", Version: "v1.0", Spec: `
generate:
  command: [sh, -c]
  args:
  - |
    cat app.yaml
    echo "appName: $ARGOCD_APP_NAME"
    echo "foo: \"$ARGOCD_ENV_FOO\""
    echo "empty: \"${ARGOCD_ENV_EMPTY-unset}\""
    echo "replicas: \"$PARAM_REPLICAS\""
`}
	byDiscovery = plugin.Definition{Name: "found", Spec: `
discover: {fileName: claimed.txt}
init: {command: [sh, -c, "cp claimed.txt copy.txt"]}
generate: {command: [sh, -c, "cat app.yaml; sed 's/^/text: /' copy.txt"]}
parameters:
  static: [{name: always, string: s}]
  dynamic: {command: [sh, -c, 'echo "[{\"name\":\"$(cat claimed.txt)\"}]"']}
`}
	broken = plugin.Shell("broken", `echo "first line" >&2; echo "second line" >&2; exit 7`)
)

// fleet is a repository with one application of each kind.
var fleet = tree.Files{
	"apps/named/app.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: named\n",
	"apps/claimed/app.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: claimed\n",
	"apps/claimed/claimed.txt": "hello",
	"apps/plain/plain.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\n",
	"apps/late/late.txt":       "x",
	"apps/late/app.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: late\n",
}

// manifest asks the repo-server for an application's manifests.
func manifest(t *testing.T, c repository.RepoServerServiceClient, url, directory string, source *v1alpha1.ApplicationSourcePlugin) (*repository.ManifestResponse, error) {
	t.Helper()
	start := time.Now()
	got, err := c.GenerateManifest(within(t, callWithin), &repository.ManifestRequest{
		Repo:               &v1alpha1.Repository{Repo: url},
		Revision:           "HEAD",
		AppName:            "app-" + strings.ReplaceAll(directory, "/", "-"),
		Namespace:          "default",
		ApplicationSource:  &v1alpha1.ApplicationSource{RepoURL: url, Path: directory, Plugin: source},
		ProjectName:        "default",
		ProjectSourceRepos: []string{"*"},
		NoCache:            true,
	})
	t.Logf("%s: %s", directory, time.Since(start).Round(time.Millisecond))
	return got, err
}

// delivered checks the manifests that came through the repo-server.
func delivered(t *testing.T, got *repository.ManifestResponse, err error, sourceType string, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatalf("expected the manifests %q of type %s, got the error %v", want, sourceType, err)
	}
	if fmt.Sprintf("%q", got.GetManifests()) != fmt.Sprintf("%q", want) || got.GetSourceType() != sourceType {
		t.Fatalf("expected the manifests %q of type %s, got %q of type %s", want, sourceType, got.GetManifests(), got.GetSourceType())
	}
}

func TestTheRepoServerRendersThroughPlugins(t *testing.T) {
	cache := redis(t)
	url := gitRepository(t, fleet)
	const claimed = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"claimed"},"text":"hello"}`
	onEach(t, func(t *testing.T, s subject) {
		c := repoServer(t, s, cache)
		t.Run("by name, with environment and parameters", func(t *testing.T) {
			replicas := "3"
			got, err := manifest(t, c, url, "apps/named", &v1alpha1.ApplicationSourcePlugin{
				Name:       byName.FullName(),
				Env:        v1alpha1.Env{{Name: "FOO", Value: "bar $ARGOCD_APP_NAME"}, {Name: "EMPTY", Value: ""}},
				Parameters: v1alpha1.ApplicationSourcePluginParameters{{Name: "replicas", String_: &replicas}},
			})
			delivered(t, got, err, "Plugin", `{"apiVersion":"v1","appName":"app-apps-named","empty":"","foo":"bar app-apps-named","kind":"ConfigMap","metadata":{"name":"named"},"replicas":"3"}`)
		})
		t.Run("by discovery", func(t *testing.T) {
			got, err := manifest(t, c, url, "apps/claimed", &v1alpha1.ApplicationSourcePlugin{})
			delivered(t, got, err, "Plugin", claimed)
		})
		t.Run("with no plugin in the application", func(t *testing.T) {
			got, err := manifest(t, c, url, "apps/claimed", nil)
			delivered(t, got, err, "Plugin", claimed)
		})
		t.Run("what no plugin claims stays a directory", func(t *testing.T) {
			got, err := manifest(t, c, url, "apps/plain", nil)
			delivered(t, got, err, "Directory", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"plain"}}`)
		})
		t.Run("a broken application says why", func(t *testing.T) {
			_, err := manifest(t, c, url, "apps/named", &v1alpha1.ApplicationSourcePlugin{Name: broken.FullName()})
			said(t, err, `CMP processing failed for application "app-apps-named": error generating manifests in cmp: rpc error: code = Unknown desc = error generating manifests: `,
				"failed exit status 7: first line\nsecond line")
		})
		t.Run("its parameters are announced", func(t *testing.T) {
			got, err := c.GetAppDetails(within(t, callWithin), &repository.RepoServerAppDetailsQuery{
				Repo:    &v1alpha1.Repository{Repo: url},
				Source:  &v1alpha1.ApplicationSource{RepoURL: url, Path: "apps/claimed", TargetRevision: "HEAD"},
				AppName: "app", NoCache: true,
			})
			if err != nil {
				t.Fatalf("expected the details, got the error %v", err)
			}
			var names []string
			for _, parameter := range got.GetPlugin().GetParametersAnnouncement() {
				names = append(names, parameter.GetName())
			}
			if want := []string{"hello", "always"}; got.GetType() != "Plugin" || !slices.Equal(names, want) {
				t.Fatalf("expected the parameters %q of a Plugin, got %q of a %s", want, names, got.GetType())
			}
		})
		t.Run("a plugin that does not claim is not used", func(t *testing.T) {
			_, err := manifest(t, c, url, "apps/plain", &v1alpha1.ApplicationSourcePlugin{Name: byDiscovery.FullName()})
			said(t, err, `could not find cmp-server plugin with name "found" supporting the given repository`)
		})
	}, byName, byDiscovery, broken)
}

func TestAPluginAddedWhileAllRunsIsFound(t *testing.T) {
	cache := redis(t)
	url := gitRepository(t, fleet)
	late := plugin.Definition{Name: "late", Spec: "discover: {fileName: late.txt}\ngenerate: {command: [sh, -c, \"cat app.yaml; echo 'by: late'\"]}"}
	onEach(t, func(t *testing.T, s subject) {
		c := repoServer(t, s, cache)
		_, err := manifest(t, c, url, "apps/late", &v1alpha1.ApplicationSourcePlugin{})
		said(t, err, "could not find plugin supporting the given repository")
		start := time.Now()
		if err := s.Add(late); err != nil {
			t.Fatal(err)
		}
		appears(t, s, late)
		t.Logf("from the definition to the socket: %s", time.Since(start).Round(time.Millisecond))
		for _, source := range []*v1alpha1.ApplicationSourcePlugin{{}, nil, {Name: late.FullName()}} {
			got, err := manifest(t, c, url, "apps/late", source)
			delivered(t, got, err, "Plugin", `{"apiVersion":"v1","by":"late","kind":"ConfigMap","metadata":{"name":"late"}}`)
		}
	}, byDiscovery)
}

func TestTheRepoServerRendersManyApplicationsAtOnce(t *testing.T) {
	const applications, rounds = 6, 3
	files := tree.Files{}
	for i := range applications {
		files[fmt.Sprintf("apps/%d/app.yaml", i)] = fmt.Sprintf("kind: ConfigMap\napiVersion: v1\nmetadata: {name: app-%d}\n", i)
		files[fmt.Sprintf("apps/%d/claimed.txt", i)] = fmt.Sprintf("text-%d", i)
	}
	cache := redis(t)
	url := gitRepository(t, files)
	onEach(t, func(t *testing.T, s subject) {
		c := repoServer(t, s, cache)
		var group sync.WaitGroup
		for i := range applications {
			group.Go(func() {
				want := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app-%d"},"text":"text-%d"}`, i, i)
				for range rounds {
					got, err := manifest(t, c, url, fmt.Sprintf("apps/%d", i), nil)
					if err != nil || len(got.GetManifests()) != 1 || got.GetManifests()[0] != want {
						t.Errorf("application %d: expected %s, got %q, error %v", i, want, got.GetManifests(), err)
						return
					}
				}
			})
		}
		group.Wait()
	}, byDiscovery)
}

// said checks that an error contains all the texts, in this order.
func said(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("expected an error with %q, got success", texts)
	}
	rest := err.Error()
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("expected an error with %q, got %q", texts, err)
		}
		rest = after
	}
}
