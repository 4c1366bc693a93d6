package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Status is the content of /proc/PID/status.
type Status map[string]string

// StatusOf reads a process's status, which is empty if the process is gone.
func StatusOf(pid int) Status {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	status := Status{}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found {
			status[key] = strings.TrimSpace(value)
		}
	}
	return status
}

// UID is the real UID, or -1 if the process is gone.
func (s Status) UID() int {
	fields := strings.Fields(s["Uid"])
	if len(fields) == 0 {
		return -1
	}
	uid, err := strconv.Atoi(fields[0])
	if err != nil {
		return -1
	}
	return uid
}

// Bytes reads a memory row such as VmRSS or VmHWM; 0 if it is missing.
func (s Status) Bytes(row string) int64 {
	fields := strings.Fields(s[row])
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64) // The kernel writes a number or nothing.
	return kib << 10
}

// Bits reads a hexadecimal row such as CapBnd; 0 if it is missing.
func (s Status) Bits(row string) uint64 {
	bits, _ := strconv.ParseUint(s[row], 16, 64) // The kernel writes a number or nothing.
	return bits
}

// Memory is the sum of a memory row over processes. Shared pages count for each.
func Memory(entries []Entry, row string) int64 {
	var sum int64
	for _, entry := range entries {
		sum += StatusOf(entry.Pid).Bytes(row)
	}
	return sum
}

// userHz is the unit of times in /proc/PID/stat: 100 per second on Linux today.
const userHz = 100

// CPU is the CPU time of processes and of the children they have waited for.
func CPU(entries []Entry) time.Duration {
	var ticks int64
	for _, entry := range entries {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", entry.Pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		const userTime, childSystemTime = 11, 14
		for i := userTime; i <= childSystemTime && i < len(fields); i++ {
			n, _ := strconv.ParseInt(fields[i], 10, 64) // The kernel writes numbers.
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / userHz
}

// ProportionalMemory is the sum of ProportionalMemoryOf over processes.
func ProportionalMemory(entries []Entry) int64 {
	var sum int64
	for _, entry := range entries {
		sum += ProportionalMemoryOf(entry.Pid)
	}
	return sum
}

// ProportionalMemoryOf is the memory of a process, with each shared page divided by
// the number of its users; 0 if the process is gone. Only root may read it for a
// process of another UID.
func ProportionalMemoryOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, isPSS := strings.CutPrefix(line, "Pss:"); isPSS {
			return Status{"Pss": strings.TrimSpace(value)}.Bytes("Pss")
		}
	}
	return 0
}

// PeakMemoryOf is at least the most memory that a process had: what it has now, with
// shared pages divided by the number of their users, and all that it had more before.
// The sum over processes counts a page once that a hundred of them share.
func PeakMemoryOf(pid int) int64 {
	before := StatusOf(pid)
	proportional := ProportionalMemoryOf(pid)
	// What is added while this reads would count twice.
	now := max(before.Bytes("VmRSS"), StatusOf(pid).Bytes("VmRSS"))
	return proportional + before.Bytes("VmHWM") - now
}

// PeakMemory is the sum of PeakMemoryOf over processes.
func PeakMemory(entries []Entry) int64 {
	var sum int64
	for _, entry := range entries {
		sum += PeakMemoryOf(entry.Pid)
	}
	return sum
}
