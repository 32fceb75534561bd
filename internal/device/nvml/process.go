package nvml

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
)

// unknownMemory is NVML's value for memory of a process that it does not know.
const unknownMemory = ^uint64(0)

// readProcesses merges the driver's lists by process. It returns nil if the driver has none
// of the lists, or does not give one that it has: nobody may conclude then that a process
// is not there.
func (c *card) readProcesses(r *round, s *session, h nvml.Device) []gpu.Process {
	var found []gpu.Process
	for _, of := range []struct {
		metric metric
		kind   gpu.ProcessKind
		lacks  bool
		list   func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{computeProcesses, gpu.Compute, false, h.GetComputeRunningProcesses},
		{mpsProcesses, gpu.Compute, !s.hasMPSProcesses, h.GetMPSComputeRunningProcesses},
		{graphicsProcesses, gpu.Graphics, false, h.GetGraphicsRunningProcesses},
	} {
		if of.lacks {
			continue
		}
		if list, ok := ask(r, of.metric, of.list); ok {
			found = merge(found, list, of.kind)
		} else if !r.absent.has(of.metric) {
			return nil
		}
	}
	slices.SortFunc(found, func(a, b gpu.Process) int { return cmp.Compare(a.PID, b.PID) })
	c.names.fill(c.roots.Proc, found)
	return found
}

// merge adds a list to found. A process is in several lists with the same amount of
// memory, so between lists the larger counts; within one list it is there once for each
// MIG instance that it uses, so there the amounts add up.
func merge(found []gpu.Process, list []nvml.ProcessInfo, kind gpu.ProcessKind) []gpu.Process {
	if found == nil {
		found = []gpu.Process{}
	}
	earlier := len(found)
	var sums []gpu.Process
	for _, p := range list {
		if p.Pid == 0 {
			continue
		}
		at := slices.IndexFunc(sums, func(q gpu.Process) bool { return q.PID == int(p.Pid) })
		if at < 0 {
			at = len(sums)
			sums = append(sums, gpu.Process{PID: int(p.Pid), Kind: kind})
		}
		if p.UsedGpuMemory != unknownMemory {
			sums[at].Memory = gpu.Some(sums[at].Memory.Or(0) + gpu.MiBOf(p.UsedGpuMemory))
		}
	}
	for _, p := range sums {
		at := slices.IndexFunc(found[:earlier], func(q gpu.Process) bool { return q.PID == p.PID })
		switch {
		case at < 0:
			found = append(found, p)
		case p.Memory.Or(-1) > found[at].Memory.Or(-1):
			found[at].Memory = p.Memory
		}
	}
	return found
}

// nameCache remembers the names of processes between readings. Reading a name takes three
// system calls, checking that the process is still the same one takes one: the kernel
// makes a new directory in /proc for every process, so its time of birth stands for the
// start time of the process.
type nameCache map[int]processName

type processName struct {
	born time.Time
	name string
}

// fill sets the names of the processes and forgets those of all others.
func (c *nameCache) fill(proc string, processes []gpu.Process) {
	fresh := make(nameCache, len(processes))
	for i := range processes {
		p := &processes[i]
		dir := filepath.Join(proc, strconv.Itoa(p.PID))
		stat, err := os.Stat(dir)
		if err != nil {
			continue // it has ended, or lives where berth cannot see it
		}
		known, ok := (*c)[p.PID]
		if !ok || !known.born.Equal(stat.ModTime()) {
			comm, err := os.ReadFile(filepath.Join(dir, "comm"))
			if err != nil {
				continue
			}
			known = processName{born: stat.ModTime(), name: gpu.Printable(string(bytes.TrimSpace(comm)), 128)}
		}
		p.Name = known.name
		fresh[p.PID] = known
	}
	*c = fresh
}
