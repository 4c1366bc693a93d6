package pod

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Programs are the files of this machine that images have.
type Programs struct {
	// Supervisor is cmp-supervisor.
	Supervisor string
	// Busybox has the shell and its tools.
	Busybox string
	// Tools are what plugins call.
	Tools []string
}

// image is the root of a container image.
type image struct {
	root       string
	entrypoint []string
	// path is the variable PATH.
	path string
}

// searched is the value of PATH in most images.
const searched = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// accounts are those of the Dockerfiles, without the ones for requests.
const accounts = "root:x:0:0:root:/:/sbin/nologin\nargocd:x:999:999:argocd:/:/sbin/nologin\n"

// directories exist in both images, as mount points of a read-only root.
var directories = []string{"proc", "sys", "dev", "etc", "tmp", "run", "var"}

// supervisorImage is the image of Dockerfile: the binary and accounts.
func supervisorImage(root string, programs Programs) (image, error) {
	made := image{root: root, entrypoint: []string{"/cmp-supervisor"}, path: searched}
	for _, directory := range directories {
		if err := os.MkdirAll(filepath.Join(root, directory), 0o755); err != nil {
			return made, err
		}
	}
	lines, err := exec.Command(programs.Supervisor, "passwd").Output()
	if err != nil {
		return made, fmt.Errorf("%s passwd: %w", programs.Supervisor, err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/passwd"), append([]byte(accounts), lines...), 0o644); err != nil {
		return made, err
	}
	return made, made.add(programs.Supervisor, "/cmp-supervisor")
}

// toolsImage has a shell and tools, as that of Argo CD and that of Dockerfile.tools.
func toolsImage(root string, programs Programs) (image, error) {
	made, err := supervisorImage(root, programs)
	if err != nil {
		return made, err
	}
	if err := made.add(programs.Busybox, "/bin/busybox"); err != nil {
		return made, err
	}
	applets, err := exec.Command(programs.Busybox, "--list").Output()
	if err != nil {
		return made, err
	}
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet == "busybox" {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return made, err
		}
	}
	for _, tool := range programs.Tools {
		if err := made.add(tool, filepath.Join("/usr/local/bin", filepath.Base(tool))); err != nil {
			return made, err
		}
	}
	return made, nil
}

// add copies a program with its libraries: a build for tests is not static.
func (i image) add(program, to string) error {
	// It fails for static programs and scripts, which have none.
	listed, _ := exec.Command("ldd", program).Output()
	files := map[string]string{program: to}
	for word := range strings.FieldsSeq(string(listed)) {
		if filepath.IsAbs(word) {
			files[word] = word
		}
	}
	for from, to := range files {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		to = filepath.Join(i.root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// group is the GID of a UID in /etc/passwd, or 0 if it has no account.
func (i image) group(uid uint32) (uint32, error) {
	text, err := os.ReadFile(filepath.Join(i.root, "etc/passwd"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, ":")
		if len(fields) > 3 && fields[2] == strconv.FormatUint(uint64(uid), 10) {
			gid, err := strconv.ParseUint(fields[3], 10, 32)
			return uint32(gid), err
		}
	}
	return 0, nil
}
