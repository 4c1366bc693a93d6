package interop

import (
	"fmt"
	"strings"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	"github.com/argoproj/argo-cd/v3/util/app/discovery"
)

// socketsVariable is the variable with which Argo CD's client finds the sockets.
const socketsVariable = "ARGOCD_PLUGINSOCKFILEPATH"

// contenders are plugins in the order in which Argo CD asks them, which is that
// of their sockets' names.
var contenders = []plugin.Definition{
	{Name: "a-named", Spec: "generate: {command: [echo, 'by: a-named']}"},
	{Name: "b-broken", Spec: "generate: {command: [echo, 'by: b-broken']}\ndiscover: {find: {command: [\"false\"]}}"},
	{Name: "c-absent", Spec: "generate: {command: [echo, 'by: c-absent']}\ndiscover: {find: {glob: absent}}"},
	{Name: "d-other", Spec: "generate: {command: [echo, 'by: d-other']}\ndiscover: {fileName: other}"},
	{Name: "e-claims", Version: "v1.0", Spec: "generate: {command: [echo, 'by: e-claims']}\ndiscover: {find: {glob: '**/claimed'}}"},
	{Name: "f-late", Spec: "generate: {command: [echo, 'by: f-late']}\ndiscover: {find: {command: [echo, claimed]}}"},
}

// detected renders with the plugin that Argo CD's own client chooses.
func detected(t *testing.T, s subject, name string, app client.App) ([]string, error) {
	t.Helper()
	t.Setenv(socketsVariable, s.Folders().Sockets)
	conn, found, err := discovery.DetectConfigManagementPlugin(within(t, callWithin), app.Path, app.Root, name, app.Env, app.Exclude)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return (&client.Client{ConfigManagementPluginServiceClient: found}).Generate(within(t, callWithin), app)
}

func TestArgoCDSettlesOnTheSamePlugin(t *testing.T) {
	cases := []struct{ name, plugin, directory, want string }{
		{"the first that claims", "", "deep", "e-claims"},
		{"one before it", "", "other", "d-other"},
		{"the last", "", "plain", "f-late"},
		{"a name", "a-named", "plain", "a-named"},
		{"a name with a version", "e-claims-v1.0", "deep", "e-claims"},
		{"a name that claims too", "f-late", "deep", "f-late"},
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"deep/er/claimed": "x", "other/other": "x", "plain/x": "x"})
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				got, err := detected(t, s, c.plugin, at(repo, c.directory))
				rendered(t, got, err, fmt.Sprintf(`{"by":%q}`, c.want))
			})
		}
	}, contenders...)
}

func TestArgoCDFindsNoPluginWhereNoneIs(t *testing.T) {
	cases := []struct{ name, plugin, cause string }{
		{"no such socket", "absent", "error dialing to cmp-server for plugin absent.sock"},
		{"a name without its version", "e-claims", "error dialing to cmp-server for plugin e-claims.sock"},
		{"a socket elsewhere", "../outside", "is outside plugin socket dir"},
		{"does not claim", "d-other", ""},
		{"cannot say", "b-broken", "desc = match repository error: error running find command: `false` failed exit status 1"},
		{"must be there", "c-absent", "error finding glob match for pattern"},
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"x": "x"})
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				got, err := detected(t, s, c.plugin, repo)
				if err == nil {
					t.Fatalf("expected an error, got %q", got)
				}
				want := fmt.Sprintf("could not find cmp-server plugin with name %q supporting the given repository", c.plugin)
				cause, isThat := strings.CutPrefix(err.Error(), want)
				if !isThat || !strings.Contains(cause, c.cause) || (cause == "") != (c.cause == "") {
					t.Errorf("expected the error %q with the cause %q, got %v", want, c.cause, err)
				}
			})
		}
	}, contenders...)
}

func TestArgoCDTellsTheTypeOfAnApplication(t *testing.T) {
	claims := discovering("claims", "{fileName: claimed}")
	enabled := func(value bool) map[string]bool { return map[string]bool{"Helm": value, "Kustomize": value} }
	cases := []struct {
		directory string
		enabled   map[string]bool
		want      string
	}{
		{"kustomize", enabled(true), "Kustomize"},
		{"helm", enabled(true), "Helm"},
		{"plain", enabled(true), "Directory"},
		{"kustomize", enabled(false), "Directory"},
		{"helm", enabled(false), "Directory"},
		{"claimed", enabled(false), "Plugin"},
	}
	files := tree.Files{"kustomize/kustomization.yaml": "{}", "helm/Chart.yaml": "{}", "plain/x": "x", "claimed/claimed": "x", "claimed/Chart.yaml": "{}"}
	judge := func(definitions ...plugin.Definition) func(t *testing.T) {
		return func(t *testing.T) {
			onEach(t, func(t *testing.T, s subject) {
				t.Setenv(socketsVariable, s.Folders().Sockets)
				repo := repositoryOf(t, files)
				for _, c := range cases {
					if c.want == "Plugin" && len(definitions) == 0 {
						continue
					}
					got, err := discovery.AppType(within(t, callWithin), at(repo, c.directory).Path, repo.Root, c.enabled, nil, nil)
					if err != nil || got != c.want {
						t.Errorf("%s with %v: expected %s, got %q, error %v", c.directory, c.enabled, c.want, got, err)
					}
				}
			}, definitions...)
		}
	}
	t.Run("without plugins", judge())
	t.Run("with a plugin", judge(claims))
}
