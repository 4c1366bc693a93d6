package proc

import (
	"os"
	"syscall"
)

// shared is where Linux keeps a file system in memory.
const shared = "/dev/shm"

// sharedNeeds is the room that a run may take: copies of Argo CD's binaries,
// and repositories.
const sharedNeeds = 2 << 30

// noexec is the mount flag of statfs(2) under which no program runs, as on the
// /dev/shm of many containers.
const noexec = 8

// FastDirectory is where temporary files go: where TMPDIR says; else into
// memory, because a server that waits for a disk shows little of itself.
func FastDirectory() string {
	var status syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(shared, &status) != nil {
		return os.TempDir()
	}
	room := status.Bavail * uint64(status.Bsize)
	if room < sharedNeeds || status.Flags&noexec != 0 || syscall.Access(shared, 2) != nil {
		return os.TempDir()
	}
	return shared
}
