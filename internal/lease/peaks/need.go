package peaks

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// margin is the least that is leased beyond what was measured.
const margin = gpu.MiB(256)

// Known returns the most memory that the last runs used; 0 if none of them was watched
// long enough to tell. A short run counts beside others: it used that much at least.
func (e *Entry) Known() gpu.MiB {
	if !slices.ContainsFunc(e.Runs, func(r Run) bool { return r.Peak > 0 && !r.Short }) {
		return 0
	}
	return e.Peak()
}

// Need returns how much to lease for the next run, or 0 if that is unknown.
// Every program needs a context and some room beside it.
func (e *Entry) Need(context gpu.MiB) gpu.MiB {
	if e.Known() == 0 {
		return 0
	}
	most := context + margin
	for _, r := range e.Runs {
		most = max(most, r.need(e.Ceiling))
	}
	return most
}

// WithMargin returns how much to lease for a program with this measured peak: a tenth
// more, or margin more if that is larger.
func WithMargin(peak gpu.MiB) gpu.MiB {
	const grain = gpu.MiB(64)
	need := peak + max(peak/10, margin)
	return (need + grain - 1) / grain * grain
}

// need returns the peak and a margin. A run that stayed within what somebody
// asked for needs no more than that: a library that takes all it may have would
// otherwise get more with every run. If a run filled what berth had learned,
// nobody can tell whether it needs more, so it gets more, up to the ceiling.
func (r Run) need(ceiling gpu.MiB) gpu.MiB {
	if r.Peak == 0 {
		return 0
	}
	need := WithMargin(r.Peak)
	switch {
	case r.Peak > r.Asked:
		return need
	case r.Learned && r.Peak >= r.Asked/100*95:
		return min(need, max(r.Asked, ceiling))
	}
	return min(need, r.Asked)
}

// raise sets how far Need may grow by itself: to the most that somebody asked
// for, or to twice what a run without a limit used.
func (e *Entry) raise(r Run) {
	switch {
	case r.Learned:
	case r.Asked > 0:
		e.Ceiling = max(e.Ceiling, r.Asked)
	default:
		e.Ceiling = max(e.Ceiling, 2*r.Peak)
	}
}

// Offer returns how much to lease for a run that does not say, never more than
// most, and the peak that this comes from; both are 0 if nothing is known.
func (p *Peaks) Offer(key Key, context, most gpu.MiB) (need, peak gpu.MiB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil {
		return 0, 0
	}
	return min(e.Need(context), most), e.Peak()
}

// Took records that a run has leased what Offer returned. Without it, Ended
// would count that as an amount that somebody asked for.
func (p *Peaks) Took(key Key, offered gpu.MiB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.entries[key]; e != nil && e.Offered != offered {
		e.Offered = offered
		p.file.Change(writeAfter)
	}
}

// Drew returns the power that earlier runs of a piece of work drew on one device;
// absent if nothing is known.
func (p *Peaks) Drew(key Key) gpu.Opt[gpu.Watts] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.entries[key]; e != nil {
		return e.Drew()
	}
	return gpu.Opt[gpu.Watts]{}
}
