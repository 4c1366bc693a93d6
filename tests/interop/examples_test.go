package interop

import (
	"os"
	"slices"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/sut"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	repository "github.com/argoproj/argo-cd/v3/reposerver/apiclient"
)

// tiers are all values of --isolation.
var tiers = []string{"namespaces", "uid", "landlock", "none"}

// environment is what Argo CD's own code makes of the Application.
func (e example) environment(t *testing.T) []string {
	t.Helper()
	env, err := e.source.Parameters.Environ()
	must(t, err)
	for _, entry := range e.source.Env {
		env = append(env, "ARGOCD_ENV_"+entry.Name+"="+entry.Value)
	}
	return append(env, "ARGOCD_APP_NAME=shop_"+e.name, "ARGOCD_APP_NAMESPACE=default",
		"KUBE_VERSION=1.34", "KUBE_API_VERSIONS=monitoring.coreos.com/v1,apps/v1")
}

// rendering is the answer for each example.
func (s shop) rendering(t *testing.T, server subject, app client.App) [][]string {
	t.Helper()
	var all [][]string
	for i, e := range s.examples {
		got, err := server.generate(t, s.definitions[i], with(at(app, e.directory()), e.environment(t)...))
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		all = append(all, got)
	}
	return all
}

// equal compares the manifests of two servers byte by byte.
func (s shop) equal(t *testing.T, got, want [][]string) {
	t.Helper()
	for i, e := range s.examples {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("%s: expected the peer's manifests %q, got %q", e.name, want[i], got[i])
		}
		if !strings.Contains(strings.Join(got[i], "\n"), e.contains) {
			t.Errorf("%s: expected %q in the manifests, got %q", e.name, e.contains, got[i])
		}
	}
}

// confined starts ours with one isolation tier.
func (s shop) confined(t *testing.T, tier string) subject {
	t.Helper()
	options := needsOurs(t)
	options.Isolation = tier
	if tier == "none" {
		options.Arguments = []string{"--accept-no-isolation"}
	}
	server, err := sut.StartOurs(options, scratch, s.definitions...)
	if err != nil {
		lacks(t, "the tier %s: %v", tier, err)
	}
	return stopped(t, server)
}

func TestToolsPrintTheSameInEveryTier(t *testing.T) {
	needsOurs(t)
	s := openShop(t)
	app := repositoryOf(t, s.files)
	want := s.rendering(t, peer(t, s.definitions...), app)
	for _, tier := range tiers {
		if chosen := os.Getenv(oursIsolation); chosen != "" && chosen != tier {
			continue
		}
		t.Run(tier, func(t *testing.T) {
			s.equal(t, s.rendering(t, s.confined(t, tier), app), want)
		})
	}
}

// ask is the repo-server's answer for an example; name is empty to let it discover
// the plugin.
func (e example) ask(t *testing.T, c repository.RepoServerServiceClient, url, name string) []string {
	t.Helper()
	source := e.source
	source.Name = name
	got, err := c.GenerateManifest(within(t, callWithin), &repository.ManifestRequest{
		Repo: &v1alpha1.Repository{Repo: url}, Revision: "HEAD", AppName: "shop_" + e.name, Namespace: "default",
		ApplicationSource: &v1alpha1.ApplicationSource{RepoURL: url, Path: e.directory(), Plugin: &source},
		ProjectName:       "default", ProjectSourceRepos: []string{"*"}, NoCache: true,
		KubeVersion: "1.34", ApiVersions: []string{"monitoring.coreos.com/v1", "apps/v1"},
	})
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	return got.GetManifests()
}

// delivery is the repo-server's answer for each example, by name, and again by
// discovery for those that have one.
func (s shop) delivery(t *testing.T, server subject, redis, url string) (byName, discovered [][]string) {
	t.Helper()
	c := repoServer(t, server, redis)
	for i, e := range s.examples {
		named := e.ask(t, c, url, s.definitions[i].FullName())
		byName = append(byName, named)
		if e.isDiscovered {
			named = e.ask(t, c, url, "")
		}
		discovered = append(discovered, named)
	}
	return byName, discovered
}

func TestToolsPrintTheSameThroughTheRepoServer(t *testing.T) {
	options := needsOurs(t)
	cache := redis(t)
	s := openShop(t)
	url := gitRepository(t, s.files)
	named, discovered := s.delivery(t, peer(t, s.definitions...), cache, url)
	gotNamed, gotDiscovered := s.delivery(t, s.confined(t, options.Isolation), cache, url)
	s.equal(t, gotNamed, named)
	s.equal(t, gotDiscovered, discovered)
}
