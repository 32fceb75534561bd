package desk

import (
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// Groups keeps processes from devices that they have not leased.
type Groups interface {
	// Available returns why this machine has no groups, or nil if it has them.
	Available() error
	// Enclose moves a process into a group of its own, which can open only those of
	// NVIDIA's GPUs that have these minors. Leavable reports whether the user of the
	// process can move it out again.
	Enclose(id process.ID, fence uint64, minors []int) (leavable bool, err error)
	// Encloses reports whether the lease with this fence has a group.
	Encloses(fence uint64) bool
	// Release notes that a lease has ended. The lease need not have had a group.
	Release(fence uint64)
}

// isolation returns what keeps the process of an order from the devices of others. It
// refuses what this machine cannot do: a program could not tell that it is isolated less
// than it asked for.
func (d *Desk) isolation(b *api.LeaseRequest, binding lease.Binding) (string, error) {
	way := b.Isolation
	if way == "" && b.Enforce != "" {
		way = d.Enforcement().Isolation
	}
	if way != launch.ByCgroup {
		return launch.ByEnv, nil
	}
	if binding != lease.ByProcess {
		return "", notIsolated("Only a lease that is bound to a process can be isolated by a control group, because the daemon moves that process. Ask with binding process.")
	}
	for _, device := range d.candidates(string(b.GPU)) {
		if _, err := minorOf(device); err != nil {
			return "", err
		}
	}
	if d.Groups == nil {
		return "", notIsolated("This daemon cannot isolate programs by control groups. Use isolation env.")
	}
	if err := d.Groups.Available(); err != nil {
		return "", because(err, Conflict, isolationUnavailable, "Or use --isolation env, which a program can undo.")
	}
	return launch.ByCgroup, nil
}

// isolationUnavailable is the code of every refusal to isolate.
const isolationUnavailable = "isolation_unavailable"

func notIsolated(format string, args ...any) *Refusal {
	return Refuse(Conflict, isolationUnavailable, format, args...)
}

// minorOf returns the minor number of the device file of a whole NVIDIA GPU. It refuses
// other devices, whose files the filter does not know.
func minorOf(d gpu.Device) (int, error) {
	number, ok := strings.CutPrefix(d.Path, "/dev/nvidia")
	minor, err := strconv.Atoi(number)
	switch {
	case d.Vendor == gpu.Simulated:
		return 0, notIsolated("%s is simulated and has no device file, so a control group cannot keep a program from it. Use --isolation env.", d.Label())
	case d.Vendor != gpu.NVIDIA || d.Parent != "" || len(d.Instances) > 0:
		return 0, notIsolated("A control group isolates whole NVIDIA GPUs, and %s is none. Name another one with --gpu, or use --isolation env.", d.Label())
	case !ok || err != nil || minor < 0:
		return 0, notIsolated("The driver does not say which device file %s has, so a control group cannot keep a program from the others. Use --isolation env.", d.Label())
	}
	return minor, nil
}

// enclose moves the process of a lease into a group that can open only the devices of the
// lease. It returns a note for the holder, or refuses.
func (d *Desk) enclose(l *lease.Lease) (note string, err error) {
	var minors []int
	for _, p := range l.Parts {
		minor, err := minorOf(d.Ledger.Sum(p.GPU).Device)
		if err != nil {
			return "", err
		}
		minors = append(minors, minor)
	}
	if d.Groups == nil {
		return "", notIsolated("This daemon cannot isolate programs by control groups. Use isolation env.")
	}
	leavable, err := d.Groups.Enclose(process.ID{PID: l.Holder.PID, Start: l.Holder.Start}, l.Fence, minors)
	if err != nil {
		return "", because(err, Conflict, isolationUnavailable, "Or use --isolation env, which a program can undo.")
	}
	// A lease that ended meanwhile had no group to release.
	if held, stands := d.Ledger.Find(l.Key()); !stands || held.Lease.Fence != l.Fence {
		d.Groups.Release(l.Fence)
		return "", Refuse(Conflict, "lease_ended", "The lease %s ended while its process was isolated. Ask again.", l.ID)
	}
	if leavable {
		note = "the control group around the program is yours, so it can leave the one that keeps it from other GPUs"
	}
	return note, nil
}

// IsolatedBy returns what keeps the process of a lease from other devices, or "" if only
// its environment does.
func (d *Desk) IsolatedBy(l *lease.Lease) string {
	if d.Groups != nil && d.Groups.Encloses(l.Fence) {
		return launch.ByCgroup
	}
	return ""
}
