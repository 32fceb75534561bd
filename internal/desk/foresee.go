package desk

import (
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Foresight says when requests will be granted. It keeps the last look ahead for a moment:
// many callers ask about the same queue.
type Foresight struct {
	ledger *ledger.Ledger
	peaks  *peaks.Peaks
	config func() *config.Config

	asking sync.Mutex // held while somebody looks ahead for a request that does not wait

	mu                   sync.Mutex // guards what follows
	at                   time.Time
	earlier              *earlier
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
func (d *Foresight) Estimate(k lease.Key) *api.Estimate {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.at) > foresightKept {
		d.earlier = newEarlier(d.peaks)
		d.likely, d.late, d.latest = d.ledger.Foresee(now, d.earlier.lasts(likelyShare), ledger.Nobody), d.ledger.Foresee(now, d.earlier.lasts(lateShare), ledger.Again), nil
		for _, one := range d.likely {
			if one.At.IsZero() {
				d.latest = d.ledger.Foresee(now, atMost, ledger.Nobody)
				break
			}
		}
		d.at = time.Now()
	}
	likely, found := d.likely[k]
	if !found {
		return nil
	}
	e := d.earlier.estimate(likely, d.late[k], d.latest[k])
	if passed := d.ledger.Passed(k); e.Unknown != "" && passed > 0 {
		e.Unknown += ", and " + words.Count(passed, "other") + " passed it meanwhile"
	}
	return e
}

// Limited returns why a quota or a limit keeps a waiting request, however much room there
// is; nil if none does.
func (d *Foresight) Limited(k lease.Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.limitedAt) > foresightKept {
		d.limited, d.limitedAt = d.ledger.Limited(), now
	}
	return d.limited[k]
}

// unknownStart says why nobody knows when a request would start; "" if it starts now, or if
// that is known. Unlike estimateNew, it takes no look ahead.
func (d *Foresight) unknownStart(r lease.Request) string {
	if d.ledger.Fits(r) {
		return ""
	}
	unknown, because := d.ledger.StartUnknown(r)
	if !unknown {
		return ""
	}
	text := "nobody knows when it starts, because nothing that ends by itself makes room for it"
	if because != nil {
		text = "nobody knows when it starts, because " + because.ID + " has no time limit"
	}
	if d.config().Queue.Unknown == "pass" {
		text += "; others pass it meanwhile"
	}
	return text
}

// estimateNew returns when a request would be granted that does not wait yet. It looks
// ahead for one caller at a time.
func (d *Foresight) estimateNew(r lease.Request) *api.Estimate {
	d.asking.Lock()
	defer d.asking.Unlock()
	now, runs := time.Now(), newEarlier(d.peaks)
	likely, err := d.ledger.ForeseeNew(now, r, runs.lasts(likelyShare), ledger.Nobody)
	if err != nil {
		return &api.Estimate{Unknown: err.Error()}
	}
	var late, latest ledger.Foreseen // without a time if it fails
	if likely.At.IsZero() {
		latest, _ = d.ledger.ForeseeNew(now, r, atMost, ledger.Nobody)
	} else {
		late, _ = d.ledger.ForeseeNew(now, r, runs.lasts(lateShare), ledger.Again)
	}
	return runs.estimate(likely, late, latest)
}

// estimate returns what was foreseen, for people.
func (e *earlier) estimate(likely, late, atLatest ledger.Foreseen) *api.Estimate {
	var found api.Estimate
	switch {
	case !likely.At.IsZero():
		found.Likely = &likely.At
	case likely.Leaves:
		found.Unknown = "it stops waiting before there is room"
	case likely.Because != nil:
		found.Unknown = e.endUnknown(likely.Because)
	default:
		found.Unknown = "nothing that ends by itself makes room for it"
	}
	switch {
	case found.Likely != nil && !late.At.IsZero():
		at := latest(late.At, *found.Likely)
		found.Late = &at
	case found.Likely == nil && !likely.Leaves && !atLatest.At.IsZero():
		found.Latest, found.Passable = &atLatest.At, atLatest.Passable
	}
	return &found
}

// endUnknown says why nobody knows when a lease ends.
func (e *earlier) endUnknown(l *lease.Lease) string {
	longer := len(e.runs(l)) > 0
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

// earlier has how long earlier runs took. It asks once about each name, and once about
// each user and kind, for a look ahead asks about the same ones again and again.
type earlier struct {
	peaks   *peaks.Peaks
	ofNames map[peaks.Key]peaks.Lengths
	ofKinds map[alike]peaks.Lengths
}

// alike names the runs of a kind that a user had, of any name.
type alike struct {
	user string
	kind peaks.Kind
}

func newEarlier(p *peaks.Peaks) *earlier {
	return &earlier{p, map[peaks.Key]peaks.Lengths{}, map[alike]peaks.Lengths{}}
}

// lasts returns how long leases last: as the given share of the earlier runs that tell it,
// and no longer than their time limits. If no run tells it, they last as long as the limit
// that somebody chose. A limit that nobody chose tells nothing but the latest end.
func (e *earlier) lasts(share float64) ledger.Lasts {
	return func(held *lease.Lease, lasted time.Duration) (time.Duration, bool) {
		more, is := e.runs(held).Remaining(lasted, share)
		if left, limited := atMost(held, lasted); limited && (is && left < more || !is && !held.Unchosen) {
			return left, true
		}
		return more, is
	}
}

// runs returns the runs that tell how long a lease lasts: those of the same name. If there
// are none, and nobody chose a limit, whatever its user ran of the same kind tells it.
// Services last as long as they are used.
func (e *earlier) runs(l *lease.Lease) peaks.Lengths {
	if keptByName(l) {
		return nil
	}
	chosen := l.TimeLimit > 0 && !l.Unchosen
	named := once(e.ofNames, peaks.KeyOf(l.Holder), func(k peaks.Key) peaks.Lengths {
		entry, _ := e.peaks.Find(k)
		return entry.Lengths()
	})
	if len(named) > 0 || chosen || l.Run.Kind == lease.OfService {
		return named
	}
	return once(e.ofKinds, alike{l.Holder.User, peaks.KindOf(l)}, func(a alike) peaks.Lengths { return e.peaks.OfKind(a.user, a.kind) })
}

// once returns what is known of a key, and finds it if nobody has asked.
func once[K comparable, V any](known map[K]V, k K, find func(K) V) V {
	v, asked := known[k]
	if !asked {
		v = find(k)
		known[k] = v
	}
	return v
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
