package httpapi

import (
	"context"
	"net/http"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history"
	"github.com/berth-gpu/berth/internal/launch"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/mps"
	"github.com/berth-gpu/berth/internal/words"
)

// learns reports whether a request is to get what earlier runs of its name used.
func learns(b api.LeaseRequest) bool { return b.Learned && b.Memory == 0 && b.Name != "" }

// learn gives a request that says nothing about memory what earlier runs of the
// same name used, and says so.
func (s *server) learn(b *api.LeaseRequest, holder lease.Holder) (note string) {
	if !learns(*b) {
		return ""
	}
	need, peak := s.History.Offer(history.Key{User: holder.User, Name: b.Name}, s.Enforcement().Context, s.mostEver())
	if need == 0 {
		return ""
	}
	b.Memory = need
	return b.Name + " gets " + need.String() + ": earlier runs used up to " + peak.String()
}

// mostEver is the most memory that could ever be leased on one device.
func (s *server) mostEver() gpu.MiB {
	var most gpu.MiB
	for _, sum := range s.Ledger.Sums() {
		most = max(most, sum.Most)
	}
	return most
}

// took tells the history that a request was granted that learn gave something.
func (s *server) took(b api.LeaseRequest, granted lease.Request) {
	if learns(b) && granted.Memory > 0 {
		s.History.Took(history.Key{User: granted.Holder.User, Name: granted.Holder.Name}, granted.Memory)
	}
}

// rung decides who holds a lease to its memory: the strongest that there is, of
// those the asker can do its part for.
func (s *server) rung(b api.LeaseRequest, bound bool) (string, error) {
	why := error(nil)
	if b.Enforce == "auto" || b.Enforce == launch.MPS {
		why = s.whyNoMPS(b)
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
		return launch.None, nil // whoever asked may not be who uses it
	}
	return launch.Watchdog, nil
}

// whyNoMPS says what keeps a lease from being enforced by MPS, if anything.
func (s *server) whyNoMPS(b api.LeaseRequest) error {
	no := func(detail string) error { return problem(http.StatusConflict, "mps_unavailable", "%s", detail) }
	if !s.Enforcement().MPS {
		return no("MPS is switched off: set gpu.mps to on (berth config set mps=on).")
	}
	if b.GPUs > 1 {
		return no("An MPS daemon serves one device, so a lease over several cannot be enforced by it. Ask for one, or use another --enforce.")
	}
	if uuid := notForMPS(s.candidates(b.GPU)); uuid != "" {
		return no("MPS is for whole NVIDIA devices, and " + uuid + " is none. Name another one with --gpu, or use another --enforce.")
	}
	if err := mps.Available(); err != nil {
		return no(words.UpperFirst(err.Error()) + ".")
	}
	return nil
}

// candidates lists the devices that a request may get: the one that it names, or
// any.
func (s *server) candidates(named string) []gpu.Device {
	if r, found := s.Monitor.Find(named); named != "" && found {
		return []gpu.Device{r.Device}
	}
	var all []gpu.Device
	for _, r := range s.Monitor.Readings() {
		all = append(all, r.Device)
	}
	return all
}

// notForMPS is the first device that has no MPS; empty if all have.
func notForMPS(devices []gpu.Device) string {
	for _, d := range devices {
		if d.Vendor != gpu.NVIDIA || d.Parent != "" || len(d.Instances) > 0 {
			return d.UUID
		}
	}
	return ""
}

// outfit adds to a grant what a launcher needs. If that cannot be had, the
// lease is given back: it must not claim what does not hold.
func (s *server) outfit(ctx context.Context, granted *lease.Lease) (api.Lease, error) {
	l := s.equipped(granted)
	if granted.EnforcedBy != launch.MPS {
		return l, nil
	}
	pipe, err := s.MPS.Use(ctx, granted.Parts[0].GPU, granted.Holder.UID, granted.ID)
	if err != nil {
		_, _ = s.Ledger.Release(context.WithoutCancel(ctx), granted.ID, granted.Fence, lease.Daemon())
		s.MPS.Release(granted.ID)
		return l, problem(http.StatusConflict, "mps_failed", "%s. Try again, or with --enforce framework.", words.UpperFirst(err.Error()))
	}
	l.Launch.MPS = pipe
	return l, nil
}

// equipped is a lease with what is known about its devices.
func (s *server) equipped(granted *lease.Lease) api.Lease {
	l := leaseOf(ledger.Held{Lease: granted})
	l.Launch = &api.Launch{Context: s.Enforcement().Context}
	for _, p := range granted.Parts {
		device := s.Ledger.Sum(p.GPU).Device
		device.UUID = p.GPU // also if the device has just gone
		l.Launch.Devices = append(l.Launch.Devices, device)
	}
	return l
}
