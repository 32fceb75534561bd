package desk

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// When a lease that does not use what it holds is in the way of others.
const (
	hogAge   = 10 * time.Minute // a younger lease may still load its model, and a shorter pause is a pause
	hogWait  = time.Minute      // who has waited for less may be served at once
	hogSpare = gpu.MiB(1024)    // less memory on a device is not worth a word
	mostHogs = 5
)

// Hog is a lease that keeps from others what it does not use.
type Hog struct {
	Lease   api.Lease
	Peak    gpu.MiB       // the most that it has used on one device
	Waiting []api.Waiting // those who wait for what it holds, the oldest first
	Yours   bool          // the caller may change the lease
}

// Unused says that a lease does not use what it holds, to follow its name, or returns ""
// if it does, or if that is not known. Under MPS, a device does not report what programs
// use.
func Unused(l *api.Lease, peak gpu.MiB, now time.Time) string {
	if l.State != "active" || l.Cancelled != nil || now.Sub(l.Granted) < hogAge {
		return ""
	}
	var most gpu.MiB // leased on one device
	for _, p := range l.Parts {
		most = max(most, p.Memory)
		peak = max(peak, p.Measured.Or(0))
	}
	if l.Pool != nil {
		peak = max(peak, l.Pool.Taken)
	}
	switch {
	case l.Pool == nil && l.Idle != nil && now.Sub(l.Idle.Since) >= hogAge:
		return "has not used its GPU for " + words.Age(now.Sub(l.Idle.Since))
	case l.EnforcedBy == "mps" || most-peak < hogSpare:
		return ""
	case peak == 0 && l.Pool != nil:
		return "has nobody who takes from it"
	case peak == 0:
		return "has nothing on its GPU"
	case 4*peak <= most && l.Pool != nil:
		return fmt.Sprintf("has given out %s of its %s", peak.Beside(most), most.Beside(peak))
	case 4*peak <= most:
		return fmt.Sprintf("has used at most %s of its %s", peak.Beside(most), most.Beside(peak))
	}
	return ""
}

// hogNeeds names those who keep from others what they do not use, with who waits and the
// act that helps.
func hogNeeds(hogs []Hog, now time.Time) []api.Need {
	var list []api.Need
	for i := range hogs {
		h := &hogs[i]
		l := &h.Lease
		unused := Unused(l, h.Peak, now)
		if unused == "" || len(h.Waiting) == 0 {
			continue
		}
		first := &h.Waiting[0]
		waits := called(first.ID, first.Holder) + " waits"
		if n := len(h.Waiting); n > 1 {
			waits = fmt.Sprintf("%s wait, the first of them %s", words.Count(n, "request"), called(first.ID, first.Holder))
		}
		var memory gpu.MiB
		for _, p := range l.Parts {
			memory += p.Memory
		}
		list = append(list, api.Need{
			Kind: "hog", Subject: l.ID, Lease: l.ID, User: l.Holder.User, Since: &first.Since, Next: hogNext(h, now),
			Text: fmt.Sprintf("%s holds %s and %s, while %s", called(l.ID, l.Holder), memory, unused, waits),
		})
	}
	return list
}

// hogNext returns what the caller can do about a lease that does not use what it holds:
// ask its user, make it smaller, park it, or end it.
func hogNext(h *Hog, now time.Time) string {
	l, id := &h.Lease, words.Shell(h.Lease.ID)
	for _, p := range l.Parts {
		h.Peak = max(h.Peak, p.Measured.Or(0))
	}
	if l.Pool != nil {
		h.Peak = max(h.Peak, l.Pool.Taken)
	}
	switch {
	case !h.Yours:
		return "ask " + cmp.Or(l.Holder.User, "its user")
	case l.Idle != nil && now.Sub(l.Idle.Since) >= hogAge && l.Parkable:
		return "berth park " + id
	case h.Peak > 0 && l.EnforcedBy != "mps" && (l.Idle == nil || 4*h.Peak <= l.Parts[0].Memory):
		return resizeTo(l.ID, h.Peak+h.Peak/4+1)
	}
	return "berth cancel " + id
}

// resizeTo returns the command that gives a lease another size.
func resizeTo(id string, memory gpu.MiB) string {
	return fmt.Sprintf("berth resize %s %dMiB", words.Shell(id), int64(memory))
}

// called names a lease or a request with its user.
func called(id string, h api.Holder) string {
	if h.User == "" {
		return id
	}
	return id + " of " + h.User
}
