// Command argocd-repo-server is Argo CD's own repo-server, built from the
// pinned module. The end-to-end tests use it as the client.
package main

import (
	"os"

	"github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

func main() {
	if commands.NewCommand().Execute() != nil {
		os.Exit(1)
	}
}
