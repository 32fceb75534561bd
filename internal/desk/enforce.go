package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
)

// rung chooses what holds a lease to its memory: the strongest way that is available and
// that the caller can do its part for.
func (d *Desk) rung(b *api.LeaseRequest, bound bool) (string, error) {
	if len(b.Scope) > 0 {
		return scopedRung(b)
	}
	why := error(nil)
	if b.Enforce == "auto" || b.Enforce == launch.MPS {
		why = d.whyNoMPS(b)
	}
	switch {
	case b.Enforce == launch.MPS && why != nil:
		return "", why
	case b.Enforce == launch.MPS:
		return launch.MPS, nil
	case !hasMemory(b) || b.Enforce == launch.None:
		return launch.None, nil
	case b.Enforce == "auto" && why == nil:
		return launch.MPS, nil
	case b.Enforce == "auto" || b.Enforce == launch.Framework:
		return launch.Framework, nil
	case !bound:
		return launch.None, nil // the caller may not be the one who uses it
	}
	return launch.Watchdog, nil
}

// hasMemory reports whether a request is for memory, on any of its devices.
func hasMemory(b *api.LeaseRequest) bool {
	return b.Memory > 0 || slices.ContainsFunc(b.Parts, func(p api.LeaseShare) bool { return p.Memory > 0 })
}

// scopedRung chooses what holds a lease with a scope to its memory. The daemon sees
// neither the programs in the scope nor their users: it limits libraries that the
// launcher names, and refuses MPS, which serves one user.
func scopedRung(b *api.LeaseRequest) (string, error) {
	switch {
	case b.Enforce == launch.MPS:
		return "", Refuse(Conflict, "mps_unavailable", "MPS cannot enforce a lease with a scope: an MPS daemon serves the programs of one user, and those in a scope may be of any. Use enforce framework with caps, or watchdog.")
	case !hasMemory(b) || b.Enforce == launch.None:
		return launch.None, nil
	case len(b.Caps) > 0 && (b.Enforce == "auto" || b.Enforce == launch.Framework):
		return launch.Framework, nil
	case b.Enforce == launch.Framework:
		return "", wrongFields(lease.FieldErrors{{Field: "caps", Detail: "is empty; enforce framework with a scope needs the libraries that the programs use (" + words.Or(launch.Libraries()) + "), because the daemon does not see them"}})
	}
	return launch.Watchdog, nil
}

// checkCaps refuses libraries that berth cannot limit, and libraries where nothing would
// limit them.
func checkCaps(b *api.LeaseRequest) (lease.FieldError, bool) {
	if len(b.Caps) > 0 && b.Enforce != "auto" && b.Enforce != launch.Framework {
		return lease.FieldError{Field: "caps", Detail: "names libraries to limit, which only enforce auto or framework does; ask for one of these, or leave caps out"}, false
	}
	return knownCaps(b.Caps)
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
func (d *Desk) whyNoMPS(b *api.LeaseRequest) error {
	no := func(detail string) error { return Refuse(Conflict, "mps_unavailable", "%s", detail) }
	if !d.Enforcement().MPS {
		return no("MPS is switched off: set gpu.mps to on (berth config set mps=on).")
	}
	if max(b.GPUs, len(b.Parts)) > 1 {
		return no("An MPS daemon serves one device, so a lease over several cannot be enforced by it. Ask for one, or use another --enforce.")
	}
	if uuid := notForMPS(d.candidates(string(b.GPU))); uuid != "" {
		return no("MPS is for whole NVIDIA devices, and " + uuid + " is none. Name another one with --gpu, or use another --enforce.")
	}
	if err := d.MPS.Available(); err != nil {
		return because(err, Conflict, "mps_unavailable", "")
	}
	return nil
}

// candidates lists the devices that a request may get: the one that it names, or all.
func (d *Desk) candidates(named string) []gpu.Device {
	if r, found := d.Monitor.Find(named); named != "" && found {
		return []gpu.Device{r.Device}
	}
	var all []gpu.Device
	for _, r := range d.Monitor.Readings() {
		all = append(all, r.Device)
	}
	return all
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

// noMPS implements MPS for a machine that has none.
type noMPS struct{}

var errNoMPS = errors.New("there is no MPS on this machine")

func (noMPS) Available() error                                         { return errNoMPS }
func (noMPS) Use(context.Context, string, int, uint64) (string, error) { return "", errNoMPS }
func (noMPS) Release(uint64)                                           {}
func (noMPS) Serves([]process.ID) bool                                 { return false }
