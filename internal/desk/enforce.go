package desk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
)

// rung chooses what holds a lease to its memory: the strongest way that is available and
// that the caller can do its part for. Takes says whether the lease has memory; its parts
// may say so too.
func (d *equipper) rung(w *wish, bound lease.Binding, named []gpu.Device, takes bool) (string, error) {
	takes = takes || slices.ContainsFunc(w.Parts, func(p api.LeaseShare) bool { return p.Memory > 0 })
	if len(w.Scope) > 0 {
		return scopedRung(w, takes)
	}
	why := error(nil)
	if w.Enforce == "auto" || w.Enforce == launch.MPS {
		why = d.whyNoMPS(w, named)
	}
	switch {
	case w.Enforce == launch.MPS && why != nil:
		return "", why
	case w.Enforce == launch.MPS:
		return launch.MPS, nil
	case !takes || w.Enforce == launch.None:
		return launch.None, nil
	case w.Enforce == "auto" && why == nil:
		return launch.MPS, nil
	case w.Enforce == "auto" || w.Enforce == launch.Framework:
		return launch.Framework, nil
	case bound != lease.ByProcess:
		return launch.None, nil // the caller may not be the one who uses it
	}
	return launch.Watchdog, nil
}

// scopedRung chooses what holds a lease with a scope to its memory. The daemon sees
// neither the programs in the scope nor their users: it limits libraries that the
// launcher names, and refuses MPS, which serves one user.
func scopedRung(w *wish, takes bool) (string, error) {
	switch {
	case w.Enforce == launch.MPS:
		return "", Refuse(Conflict, "mps_unavailable", "MPS cannot enforce a lease with a scope: an MPS daemon serves the programs of one user, and those in a scope may be of any. Use enforce framework with caps, or watchdog.")
	case !takes || w.Enforce == launch.None:
		return launch.None, nil
	case len(w.Caps) > 0 && (w.Enforce == "auto" || w.Enforce == launch.Framework):
		return launch.Framework, nil
	case w.Enforce == launch.Framework:
		return "", wrongFields(lease.FieldErrors{{Field: "caps", Detail: "is empty; enforce framework with a scope needs the libraries that the programs use (" + words.Or(launch.Libraries()) + "), because the daemon does not see them"}})
	}
	return launch.Watchdog, nil
}

// checkCaps refuses libraries that berth cannot limit, and libraries where nothing would
// limit them.
func checkCaps(w *wish) (lease.FieldError, bool) {
	if len(w.Caps) > 0 && w.Enforce != "auto" && w.Enforce != launch.Framework {
		return lease.FieldError{Field: "caps", Detail: "names libraries to limit, which only enforce auto or framework does; ask for one of these, or leave caps out"}, false
	}
	return knownCaps(w.Caps)
}

// knownCaps refuses libraries that berth cannot limit.
func knownCaps(caps []string) (lease.FieldError, bool) {
	for _, library := range caps {
		if !slices.Contains(launch.Libraries(), library) {
			return lease.FieldError{Field: "caps", Detail: fmt.Sprintf("names %q; berth limits %s", words.Cut(library, 64), words.And(launch.Libraries()))}, false
		}
	}
	return lease.FieldError{}, true
}

// whyNoMPS returns why MPS cannot enforce a lease, or nil if it can.
func (d *equipper) whyNoMPS(w *wish, named []gpu.Device) error {
	no := func(detail string) error { return Refuse(Conflict, "mps_unavailable", "%s", detail) }
	if d.config().GPU.MPS != "on" {
		return no("MPS is switched off: set gpu.mps to on (berth config set mps=on).")
	}
	if max(w.GPUs, len(w.Parts)) > 1 {
		return no("An MPS daemon serves one device, so a lease over several cannot be enforced by it. Ask for one, or use another --enforce.")
	}
	if uuid := notForMPS(d.devices.candidates(named)); uuid != "" {
		return no("MPS is for whole NVIDIA devices, and " + uuid + " is none. Name another one with --gpu, or use another --enforce.")
	}
	if err := d.mps.Available(); err != nil {
		return because(err, Conflict, "mps_unavailable", "")
	}
	return nil
}

// notForMPS returns the UUID of the first device without MPS, or "" if all have it.
func notForMPS(devices []gpu.Device) string {
	for _, d := range devices {
		if d.Vendor != gpu.NVIDIA || d.Parent != "" || len(d.Instances) > 0 {
			return d.UUID
		}
	}
	return ""
}

// isolation returns what keeps the process of a wish from the devices of others. It
// refuses what this machine cannot do: a program could not tell that it is isolated less
// than it asked for.
func (d *equipper) isolation(w *wish, bound lease.Binding, named []gpu.Device) (string, error) {
	way := w.Isolation
	if way == "" && w.Enforce != "" {
		way = d.config().GPU.Isolation
	}
	if way != launch.ByCgroup {
		return launch.ByEnv, nil
	}
	if bound != lease.ByProcess {
		return "", notIsolated("Only a lease that is bound to a process can be isolated by a control group, because the daemon moves that process. Ask with binding process.")
	}
	for _, device := range d.devices.candidates(named) {
		if _, err := minorOf(device); err != nil {
			return "", err
		}
	}
	if d.groups == nil {
		return "", notIsolated("This daemon cannot isolate programs by control groups. Use isolation env.")
	}
	if err := d.groups.Available(); err != nil {
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
func (d *equipper) enclose(l *lease.Lease) (note string, err error) {
	var minors []int
	for _, p := range l.Parts {
		minor, err := minorOf(d.ledger.Sum(p.GPU).Device)
		if err != nil {
			return "", err
		}
		minors = append(minors, minor)
	}
	if d.groups == nil {
		return "", notIsolated("This daemon cannot isolate programs by control groups. Use isolation env.")
	}
	leavable, err := d.groups.Enclose(process.ID{PID: l.Holder.PID, Start: l.Holder.Start}, l.Fence, minors)
	if err != nil {
		return "", because(err, Conflict, isolationUnavailable, "Or use --isolation env, which a program can undo.")
	}
	// A lease that ended meanwhile had no group to release.
	if held, stands := d.ledger.Find(l.Key()); !stands || held.Lease.Fence != l.Fence {
		d.groups.Release(l.Fence)
		return "", Refuse(Conflict, "lease_ended", "The lease %s ended while its process was isolated. Ask again.", l.ID)
	}
	if leavable {
		note = "the control group around the program is yours, so it can leave the one that keeps it from other GPUs"
	}
	return note, nil
}

// IsolatedBy returns what keeps the process of a lease from other devices, or "" if only
// its environment does.
func (d *equipper) IsolatedBy(l *lease.Lease) string {
	if d.groups != nil && d.groups.Encloses(l.Fence) {
		return launch.ByCgroup
	}
	return ""
}

// equipper gives leases what their programs need, and what keeps the programs to them.
type equipper struct {
	devices   *Devices
	ledger    *ledger.Ledger
	mps       MPS
	groups    Groups                            // nil if this machine has none
	checkup   Checkup                           // nil if devices cannot be checked
	clearedBy func(devices []gpu.Device) string // nil if nothing is known
	config    func() *config.Config

	traces traces
}
