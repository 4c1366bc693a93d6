package pod

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	core "k8s.io/api/core/v1"
)

// groups is the mount point of cgroups.
const groups = "/sys/fs/cgroup"

// controllers are those that the limits of a container need.
var controllers = []string{"memory", "pids", "cpu"}

// PIDs is the limit of processes that kubelets often set for a Pod.
const PIDs = 1024

// period is that of a CPU limit in microseconds.
const period = 100_000

// HasLimits is true if this machine can limit containers.
func HasLimits() bool {
	if text, err := os.ReadFile(filepath.Join(groups, "cgroup.subtree_control")); err == nil {
		enabled := strings.Fields(string(text))
		return !slices.ContainsFunc(controllers, func(name string) bool { return !slices.Contains(enabled, name) })
	}
	for _, name := range controllers {
		var status syscall.Statfs_t
		hierarchy := filepath.Join(groups, name)
		if syscall.Statfs(hierarchy, &status) != nil || status.Flags&syscall.MS_RDONLY != 0 {
			return false
		}
		if _, err := os.Stat(filepath.Join(hierarchy, "tasks")); err != nil {
			return false
		}
	}
	return true
}

// resources are the limits of a container, if this machine can set them.
func (p *Pod) resources(wanted core.ResourceRequirements) *specs.LinuxResources {
	if !HasLimits() {
		return nil
	}
	pids := int64(PIDs)
	limits := &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &pids}, CPU: &specs.LinuxCPU{}}
	if memory, isSet := wanted.Limits[core.ResourceMemory]; isSet {
		bytes := memory.Value()
		limits.Memory = &specs.LinuxMemory{Limit: &bytes}
	}
	if cpu, isSet := wanted.Requests[core.ResourceCPU]; isSet {
		shares := max(uint64(cpu.MilliValue())*1024/1000, 2)
		limits.CPU.Shares = &shares
	}
	if cpu, isSet := wanted.Limits[core.ResourceCPU]; isSet {
		quota, every := cpu.MilliValue()*period/1000, uint64(period)
		limits.CPU.Quota, limits.CPU.Period = &quota, &every
	}
	return limits
}

// oomScore is what a kubelet sets for a container whose memory request is below its
// limit: the less it requests, the sooner the kernel kills it.
func (p *Pod) oomScore(container core.Container) *int {
	const lowest, highest = 3, 999
	var info syscall.Sysinfo_t
	score := highest
	request := container.Resources.Requests[core.ResourceMemory]
	if syscall.Sysinfo(&info) == nil {
		whole := int64(info.Totalram) * int64(info.Unit)
		score = min(max(1000-int(1000*request.Value()/whole), lowest), highest)
	}
	return &score
}
