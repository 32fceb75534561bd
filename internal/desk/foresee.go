package desk

import (
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

	mu                   sync.Mutex // guards what follows
	at                   time.Time
	likely, late, latest map[lease.Key]ledger.Foreseen // latest only if likely lacks the time of some

	limitedAt time.Time
	limited   map[lease.Key]error
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
		f.likely, f.late, f.latest = d.Ledger.Foresee(now, d.lasts(likelyShare)), d.Ledger.Foresee(now, d.lasts(lateShare)), nil
		for _, one := range f.likely {
			if one.At.IsZero() {
				f.latest = d.Ledger.Foresee(now, atMost)
				break
			}
		}
		f.at = time.Now()
	}
	likely, found := f.likely[k]
	if !found {
		return nil
	}
	e := d.estimate(likely, f.late[k], f.latest[k])
	if passed := d.Ledger.Passed(k); e.Unknown != "" && passed > 0 {
		e.Unknown += ", and " + words.Count(passed, "other") + " passed it meanwhile"
	}
	return e
}

// Limited returns why a quota or a limit keeps a waiting request, however much room there
// is; nil if none does.
func (d *Desk) Limited(k lease.Key) error {
	f := &d.foresight
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.limitedAt) > foresightKept {
		f.limited, f.limitedAt = d.Ledger.Limited(), now
	}
	return f.limited[k]
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
	var late, latest ledger.Foreseen // without a time if it fails
	if likely.At.IsZero() {
		latest, _ = d.Ledger.ForeseeNew(now, r, atMost)
	} else {
		late, _ = d.Ledger.ForeseeNew(now, r, d.lasts(lateShare))
	}
	return d.estimate(likely, late, latest)
}

// estimate returns what was foreseen, for people.
func (d *Desk) estimate(likely, late, atLatest ledger.Foreseen) *api.Estimate {
	var e api.Estimate
	switch {
	case !likely.At.IsZero():
		e.Likely = &likely.At
	case likely.Leaves:
		e.Unknown = "it stops waiting before there is room"
	case likely.Because != nil:
		e.Unknown = d.endUnknown(likely.Because)
	default:
		e.Unknown = "nothing that ends by itself makes room for it"
	}
	switch {
	case e.Likely != nil && !late.At.IsZero():
		at := latest(late.At, *e.Likely)
		e.Late = &at
	case e.Likely == nil && !likely.Leaves && !atLatest.At.IsZero():
		e.Latest = &atLatest.At
	}
	return &e
}

// endUnknown says why nobody knows when a lease ends.
func (d *Desk) endUnknown(l *lease.Lease) string {
	longer := len(d.earlierRuns(l)) > 0
	switch {
	case l.Unchosen && longer:
		return l.ID + " has run for longer than before and nobody chose its time limit"
	case l.Unchosen:
		return l.ID + " has no history and nobody chose its time limit"
	case longer:
		return l.ID + " has no time limit and has run for longer than before"
	}
	return l.ID + " has no time limit and no history"
}

// lasts returns how long leases last: as the given share of the earlier runs that tell it,
// and no longer than their time limits. If no run tells it, they last as long as the limit
// that somebody chose. A limit that nobody chose tells nothing but the latest end.
func (d *Desk) lasts(share float64) ledger.Lasts {
	type work struct {
		peaks.Key
		kind   peaks.Kind
		chosen bool
	}
	known := map[work][]peaks.Run{} // a look ahead asks about the same ones again and again
	return func(held *lease.Lease, lasted time.Duration) (time.Duration, bool) {
		of := work{peaks.KeyOf(held.Holder), peaks.KindOf(held), held.TimeLimit > 0 && !held.Unchosen}
		runs, asked := known[of]
		switch {
		case keptByName(held):
			runs = nil
		case !asked:
			runs = d.earlierRuns(held)
			known[of] = runs
		}
		more, is := peaks.Remaining(runs, lasted, share)
		if left, limited := atMost(held, lasted); limited && (is && left < more || !is && !held.Unchosen) {
			return left, true
		}
		return more, is
	}
}

// earlierRuns returns the runs that tell how long a lease lasts: those of the same name.
// If there are none, and nobody chose a limit, whatever its user ran of the same kind
// tells it. Services last as long as they are used.
func (d *Desk) earlierRuns(l *lease.Lease) []peaks.Run {
	if keptByName(l) {
		return nil
	}
	chosen := l.TimeLimit > 0 && !l.Unchosen
	if entry, _ := d.Peaks.Find(peaks.KeyOf(l.Holder)); len(entry.Runs) > 0 || chosen || l.Run.Kind == lease.OfService {
		return entry.Runs
	}
	return d.Peaks.OfKind(l.Holder.User, peaks.KindOf(l))
}

// keptByName reports whether the holder of a lease keeps it for as long as it likes, so
// that earlier ones tell nothing.
func keptByName(l *lease.Lease) bool { return l.Binding == lease.ByName && l.Holder.PID != 0 }

// atMost is how long leases last at most: until their time limits end them.
func atMost(held *lease.Lease, lasted time.Duration) (time.Duration, bool) {
	return max(held.TimeLimit-lasted, 0), held.TimeLimit > 0
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
