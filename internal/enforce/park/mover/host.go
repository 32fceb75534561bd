package mover

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/process"
)

// Machine is the memory of this machine.
type Machine struct {
	Root      string // root of the file system; empty means /
	Processes process.Table
}

// Memory returns how much memory the machine has, and how much of it programs can get
// without swapping.
func (m Machine) Memory() (total, available gpu.MiB, err error) {
	text, err := os.ReadFile(filepath.Join("/", m.Root, "proc/meminfo"))
	if err != nil {
		return 0, 0, fmt.Errorf("read how much memory the machine has: %w", err)
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		for name, into := range map[string]*gpu.MiB{"MemTotal:": &total, "MemAvailable:": &available} {
			if rest, is := strings.CutPrefix(line, name); is {
				kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				if err != nil {
					return 0, 0, fmt.Errorf("read how much memory the machine has: %w", err)
				}
				*into = gpu.MiB(kib >> 10)
				found++
			}
		}
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("the kernel does not say how much memory the machine has")
	}
	return total, available, nil
}

// Group returns how much more memory the control groups of processes let them have, or
// absent if there is no limit. Memory that the kernel can drop, such as cached files,
// counts as free.
func (m Machine) Group(ids []move.Process) gpu.Opt[gpu.MiB] {
	least := gpu.MiB(math.MaxInt64)
	seen := map[string]bool{}
	for _, id := range ids {
		for _, group := range m.Processes.Cgroups(id.PID) {
			for ; group != "/" && group != "." && !seen[group]; group = path.Dir(group) {
				seen[group] = true
				least = min(least, m.left(group))
			}
		}
	}
	if least == math.MaxInt64 {
		return gpu.Opt[gpu.MiB]{}
	}
	return gpu.Some(max(least, 0))
}

// left returns how much more memory one control group may have, in v2 or under the memory
// controller of v1. It returns the largest amount if the group has no limit.
func (m Machine) left(group string) gpu.MiB {
	base := filepath.Join("/", m.Root, "sys/fs/cgroup")
	for _, files := range [][3]string{{base, "memory.max", "memory.current"}, {filepath.Join(base, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"}} {
		dir := filepath.Join(files[0], group)
		limit, limited := number(filepath.Join(dir, files[1]))
		used, known := number(filepath.Join(dir, files[2]))
		if limited && known && limit < math.MaxInt64/2 {
			return gpu.MiB((limit - used + cached(filepath.Join(dir, "memory.stat"))) >> 20)
		}
	}
	return math.MaxInt64
}

// number reads a file with one number. It returns false if there is none, or if the file
// says max.
func number(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// cached returns how many bytes of a control group the kernel can drop at once.
func cached(file string) int64 {
	text, _ := os.ReadFile(file) // an unreadable file counts as nothing to drop
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "inactive_file "); is {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// hostFor returns the memory of the machine for a lease on a device, whose processes have
// so much by Machine.Group. The content of simulated devices takes no memory, so only a
// setting limits it. The caller holds mu, and asks for the groups before: a lease may have
// any number of processes, and others wait for mu.
func (p *Mover) hostFor(simulated bool, group gpu.Opt[gpu.MiB]) (park.HostMemory, error) {
	h := park.HostMemory{Most: p.settings.Optimization.ParkHost}
	if simulated {
		const plenty = 1 << 40
		h.Total, h.Available = plenty, plenty
	} else {
		var err error
		if h.Total, h.Available, err = p.Machine.Memory(); err != nil {
			return park.HostMemory{}, err
		}
		h.Group = group
	}
	for _, r := range p.leases {
		if r.Phase == "" || r.Simulated != simulated {
			continue
		}
		h.Taken += memory(r.Processes)
		if r.Phase == move.Parking {
			h.Coming += memory(r.Processes)
		}
	}
	return h, nil
}
