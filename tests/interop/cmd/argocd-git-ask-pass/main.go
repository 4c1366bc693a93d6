// Command argocd-git-ask-pass is Argo CD's own helper for git, built from the
// pinned module. It asks cmp-supervisor as it would ask the repo-server.
package main

import (
	"os"

	"github.com/argoproj/argo-cd/v3/cmd/argocd-git-ask-pass/commands"
)

func main() {
	if commands.NewCommand().Execute() != nil {
		os.Exit(1)
	}
}
