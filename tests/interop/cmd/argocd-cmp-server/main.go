// Command argocd-cmp-server is Argo CD's own plugin server, built from the
// pinned module. The interop tests compare cmp-supervisor with it.
package main

import (
	"os"

	"github.com/argoproj/argo-cd/v3/cmd/argocd-cmp-server/commands"
)

func main() {
	if commands.NewCommand().Execute() != nil {
		os.Exit(1)
	}
}
