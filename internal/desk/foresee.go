package desk

import (
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/text/words"
)

// foresight keeps the last look ahead for a moment: many callers ask about the same
// queue.
type foresight struct {
	asking sync.Mutex // held while somebody looks ahead for a request that does not wait

	mu           sync.Mutex // guards what follows
	at           time.Time
	likely, late map[lease.Key]ledger.Foreseen
}

// The shares of earlier runs by which a look ahead takes a lease to have ended.
const (
	likelyShare = 0.5
	lateShare   = 0.9

	foresightKept = 2 * time.Second
)

// Estimate returns when the waiting request with a key will probably be granted. It
// returns nil if nothing is known of the request, or if the queue is too long to look
// ahead.
func (d *Desk) Estimate(k lease.Key) *api.Estimate {
	f := &d.foresight
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.at) > foresightKept {
		f.likely, f.late = d.Ledger.Foresee(now, d.lasts(likelyShare)), d.Ledger.Foresee(now, d.lasts(lateShare))
		f.at = time.Now()
	}
	likely, found := f.likely[k]
	if !found {
		return nil
	}
	e := d.estimate(likely, f.late[k])
	if passed := d.Ledger.Passed(k); e.Unknown != "" && passed > 0 {
		e.Unknown += ", and " + words.Count(passed, "other") + " passed it meanwhile"
	}
	return e
}

// unknownStart says why nobody knows when a request would start; "" if it starts now, or if
// that is known. Unlike estimateNew, it takes no look ahead.
func (d *Desk) unknownStart(r lease.Request) string {
	if d.Ledger.Fits(r) {
		return ""
	}
	unknown, because := d.Ledger.StartUnknown(r)
	if !unknown {
		return ""
	}
	text := "nobody knows when it starts, because nothing that ends by itself makes room for it"
	if because != nil {
		text = "nobody knows when it starts, because " + because.ID + " has no time limit"
	}
	if d.Config().Queue.Unknown == "pass" {
		text += "; others pass it meanwhile"
	}
	return text
}

// estimateNew returns when a request would be granted that does not wait yet. It looks
// ahead for one caller at a time.
func (d *Desk) estimateNew(r lease.Request) *api.Estimate {
	d.foresight.asking.Lock()
	defer d.foresight.asking.Unlock()
	now := time.Now()
	likely, err := d.Ledger.ForeseeNew(now, r, d.lasts(likelyShare))
	if err != nil {
		return &api.Estimate{Unknown: err.Error()}
	}
	late, _ := d.Ledger.ForeseeNew(now, r, d.lasts(lateShare)) // without a time if it fails
	return d.estimate(likely, late)
}

// estimate returns what was foreseen, for people.
func (d *Desk) estimate(likely, late ledger.Foreseen) *api.Estimate {
	var e api.Estimate
	switch {
	case !likely.At.IsZero():
		e.Likely = &likely.At
	case likely.Leaves:
		e.Unknown = "it stops waiting before there is room"
	case likely.Because != nil:
		e.Unknown = likely.Because.ID + " has no time limit and no history"
		if entry, known := d.Peaks.Find(keyOfRun(likely.Because.Holder)); known && likely.Because.TimeLimit == 0 && entry.Count > 0 {
			e.Unknown = fmt.Sprintf("%s has no time limit and has run for longer than before", likely.Because.ID)
		}
	default:
		e.Unknown = "nothing that ends by itself makes room for it"
	}
	if e.Likely != nil && !late.At.IsZero() {
		at := latest(late.At, *e.Likely)
		e.Late = &at
	}
	return &e
}

// lasts returns how long leases last, by their time limits and by the earlier runs of the
// same name, of which the given share was over by then.
func (d *Desk) lasts(share float64) ledger.Lasts {
	return func(of lease.Holder, lasted, limit time.Duration) (time.Duration, bool) {
		entry, _ := d.Peaks.Find(keyOfRun(of))
		more, known := entry.Remaining(lasted, share)
		if left := limit - lasted; limit > 0 && (!known || left < more) {
			return max(left, 0), true
		}
		return more, known
	}
}

func keyOfRun(h lease.Holder) peaks.Key { return peaks.Key{User: h.User, Name: h.Name} }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
