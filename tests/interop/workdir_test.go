package interop

import (
	"os"
	"path/filepath"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	"google.golang.org/grpc/codes"
)

// homeless is the number of failing calls. It is larger than the number of
// places, so a server that loses one place per failure would block.
const homeless = 70

// workOf is the directory that contains the requests' directories.
func workOf(s subject, d plugin.Definition) string {
	const name = "_cmp_server"
	if s.isOurs() {
		return filepath.Join(s.Folders().Work, name)
	}
	return filepath.Join(s.Folders().Work, d.FullName(), name)
}

func TestAWorkDirectoryThatCannotBeUsedIsAnErrorOfTheCallAlone(t *testing.T) {
	// Discovery is left out: a server may answer it without a directory.
	purposes := map[string]string{
		client.Generate.Name:   "manifest generation",
		client.Parameters.Name: "generating parameter announcements",
	}
	d := announcing("homeless", `{dynamic: {command: [cat, parameters.json]}}`)
	messages := client.Whole(".", tree.Archive(file("app.yaml", "kind: App\n"), file("parameters.json", "[]")))
	onEach(t, func(t *testing.T, s subject) {
		before := files(s)
		c := s.dial(t, d)
		restore := replaced(t, workOf(s, d))
		for _, method := range []client.Method{client.Generate, client.Parameters} {
			for range homeless {
				_, err := c.Raw(within(t, callWithin), method, messages...)
				if s.isOurs() {
					// A server that keeps the directory open does not fail; one that fails must
					// not blame the plugin.
					if err != nil && statusOf(t, err, codes.Internal).Code() != codes.Internal {
						t.Fatalf("expected manifests or the code Internal, got %v", err)
					}
					continue
				}
				refusedLike(t, s, err, codes.Unknown, "error creating workdir for "+purposes[method.Name]+": error creating temp dir: error creating tempDir: mkdir ANY_cmp_server: not a directory")
			}
		}
		restore()
		reply, err := c.Raw(within(t, callWithin), client.Generate, messages...)
		if err != nil {
			t.Fatalf("expected manifests again, got the error %v", err)
		}
		rendered(t, reply.(*plugins.ManifestResponse).GetManifests(), nil, `{"kind":"App"}`)
		unchanged(t, s, before)
	}, d)
}

// replaced replaces a directory with a file, and returns a function that undoes it.
func replaced(t *testing.T, directory string) (restore func()) {
	t.Helper()
	aside := directory + "-aside"
	if err := os.Rename(directory, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(directory, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(directory); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, directory); err != nil {
			t.Fatal(err)
		}
	}
}
