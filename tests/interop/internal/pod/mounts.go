package pod

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cmp-supervisor/tests/interop/internal/volume"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	core "k8s.io/api/core/v1"
)

// made is a volume of the Pod on this machine.
type made struct {
	directory string
	// isReadOnly is true for kinds that kubelets always mount read-only.
	isReadOnly bool
	// shows is the ConfigMap or Secret that it shows.
	shows *volume.Volume
}

// inMemory is a tmpfs to mount before the containers start. It gets the owner, the mode
// and the files of the directory that it covers.
type inMemory struct{ directory, options string }

// makeVolumes makes all volumes that our containers mount.
func (p *Pod) makeVolumes() error {
	for _, v := range p.manifest.Spec.Volumes {
		directory := filepath.Join(p.directory, v.Name)
		if err := os.Mkdir(directory, 0o755); err != nil {
			return err
		}
		p.volumes[v.Name] = &made{directory: directory}
		if err := p.fill(v, p.volumes[v.Name]); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

func (p *Pod) fill(v core.Volume, made *made) error {
	switch {
	case v.EmptyDir != nil && v.EmptyDir.Medium == core.StorageMediumMemory:
		p.memory = append(p.memory, inMemory{made.directory, "rw" + size(v.EmptyDir)})
		return p.open(made.directory)
	case v.EmptyDir != nil:
		return p.open(made.directory)
	case v.ConfigMap != nil:
		if v.ConfigMap.Items != nil || v.ConfigMap.DefaultMode != nil {
			return fmt.Errorf("items and modes are not translated")
		}
		return p.show(made, "ConfigMap "+v.ConfigMap.Name, isTrue(v.ConfigMap.Optional))
	case v.Secret != nil:
		if v.Secret.Items != nil || v.Secret.DefaultMode != nil {
			return fmt.Errorf("items and modes are not translated")
		}
		p.memory = append(p.memory, inMemory{made.directory, "rw"})
		return p.show(made, "Secret "+v.Secret.SecretName, isTrue(v.Secret.Optional))
	case v.Image != nil:
		made.isReadOnly, made.directory = true, p.image(v.Image.Reference).root
		return nil
	}
	return fmt.Errorf("its kind is not translated")
}

// open lets all UIDs write to a volume, as kubelets do with empty directories.
func (p *Pod) open(directory string) error {
	mode := os.FileMode(0o777)
	group := p.host(0)
	if context := p.manifest.Spec.SecurityContext; context != nil && context.FSGroup != nil {
		group = p.host(int(*context.FSGroup))
		mode |= fs.ModeSetgid
	}
	if err := os.Chown(directory, p.host(0), group); err != nil {
		return err
	}
	return os.Chmod(directory, mode)
}

// size is the mount option for the limit of a volume in memory.
func size(directory *core.EmptyDirVolumeSource) string {
	if directory.SizeLimit == nil {
		return ""
	}
	return ",size=" + strconv.FormatInt(directory.SizeLimit.Value(), 10)
}

// show fills a volume with the texts of an object.
func (p *Pod) show(made *made, object string, isOptional bool) error {
	texts, isThere := p.manifest.Objects[object]
	if !isThere && !isOptional {
		return fmt.Errorf("%s is not in the manifest", object)
	}
	made.isReadOnly = true
	made.shows = volume.New(made.directory)
	if _, err := made.shows.Update(texts); err != nil {
		return err
	}
	return p.give(made.directory)
}

// give gives files to the Pod's root.
func (p *Pod) give(directory string) error {
	if p.manifest.hostUsers() {
		return nil
	}
	return filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, p.host(0), p.host(0))
	})
}

// system are the mounts that containerd gives every container.
func system() []specs.Mount {
	mount := func(kind, at, options string) specs.Mount {
		return specs.Mount{Type: kind, Source: kind, Destination: at, Options: strings.Split(options, ",")}
	}
	return []specs.Mount{
		mount("proc", "/proc", "nosuid,noexec,nodev"),
		mount("tmpfs", "/dev", "nosuid,strictatime,mode=755,size=65536k"),
		mount("devpts", "/dev/pts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5"),
		mount("mqueue", "/dev/mqueue", "nosuid,noexec,nodev"),
		mount("sysfs", "/sys", "nosuid,noexec,nodev,ro"),
		mount("cgroup", "/sys/fs/cgroup", "nosuid,noexec,nodev,relatime,ro"),
		mount("tmpfs", "/dev/shm", "nosuid,noexec,nodev,mode=1777,size=65536k"),
	}
}

// mounts are those of a container, and makes their mount points in its image.
func (p *Pod) mounts(container core.Container, in image) ([]specs.Mount, error) {
	all := system()
	for _, mount := range container.VolumeMounts {
		made, isThere := p.volumes[mount.Name]
		if !isThere || mount.SubPathExpr != "" || mount.MountPropagation != nil {
			return nil, fmt.Errorf("the mount of %s cannot be translated", mount.Name)
		}
		// A kubelet mounts the file itself, so its updates do not arrive.
		source, err := filepath.EvalSymlinks(filepath.Join(made.directory, mount.SubPath))
		if err != nil {
			return nil, err
		}
		access := "rw"
		if mount.ReadOnly || made.isReadOnly {
			access = "ro"
		}
		if err := mountPoint(source, filepath.Join(in.root, mount.MountPath)); err != nil {
			return nil, err
		}
		all = append(all, specs.Mount{
			Type: "bind", Source: source, Destination: mount.MountPath, Options: []string{"rbind", "rprivate", access},
		})
	}
	return all, nil
}

// mountPoint makes a file or a directory to mount the source on.
func mountPoint(source, at string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, nil, 0o644)
}
