package proc

import (
	"os"
	"syscall"
)

// shared is the directory of Linux's file system in memory.
const shared = "/dev/shm"

// sharedNeeds is the space in bytes that a run may need: copies of Argo CD's
// binaries, and repositories.
const sharedNeeds = 2 << 30

// noexec is the mount flag of statfs(2) that forbids running programs, as on the
// /dev/shm of many containers.
const noexec = 8

// FastDirectory is the directory for temporary files: TMPDIR if it is set, or
// else memory, because a slow disk would hide the server's own speed.
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
