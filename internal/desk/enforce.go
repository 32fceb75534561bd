package desk

import (
	"context"
	"errors"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/launch"
	"github.com/berth-gpu/berth/internal/process"
)

// rung decides who holds a lease to its memory: the strongest that there is, of
// those that the caller can do its part for.
func (d *Desk) rung(b *api.LeaseRequest, bound bool) (string, error) {
	why := error(nil)
	if b.Enforce == "auto" || b.Enforce == launch.MPS {
		why = d.whyNoMPS(b)
	}
	switch {
	case b.Enforce == launch.MPS && why != nil:
		return "", why
	case b.Enforce == launch.MPS:
		return launch.MPS, nil
	case b.Memory == 0 || b.Enforce == launch.None:
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

// whyNoMPS says why MPS cannot enforce a lease; nil: it can.
func (d *Desk) whyNoMPS(b *api.LeaseRequest) error {
	no := func(detail string) error { return Refuse(Conflict, "mps_unavailable", "%s", detail) }
	if !d.Enforcement().MPS {
		return no("MPS is switched off: set gpu.mps to on (berth config set mps=on).")
	}
	if b.GPUs > 1 {
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

// candidates lists the devices that a request may get: the one that it names, or
// any.
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

// notForMPS returns the first device that has no MPS; empty: all have it.
func notForMPS(devices []gpu.Device) string {
	for _, d := range devices {
		if d.Vendor != gpu.NVIDIA || d.Parent != "" || len(d.Instances) > 0 {
			return d.UUID
		}
	}
	return ""
}

// noMPS stands for MPS on a machine that has none.
type noMPS struct{}

var errNoMPS = errors.New("there is no MPS on this machine")

func (noMPS) Available() error                                         { return errNoMPS }
func (noMPS) Use(context.Context, string, int, uint64) (string, error) { return "", errNoMPS }
func (noMPS) Release(uint64)                                           {}
func (noMPS) Serves([]process.ID) bool                                 { return false }
