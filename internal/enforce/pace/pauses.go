package pace

import "time"

// remembered is the number of pauses that a Controller keeps: more than half a minute of
// cycles.
const remembered = 40

// pauses keeps the last stretches in which the processes were stopped, oldest first.
type pauses struct{ list []span }

type span struct{ from, until time.Time }

// add adds the newest pause. If it began before the last one ended, the clock was set back,
// and the earlier ones say nothing any more.
func (p *pauses) add(from, until time.Time) {
	if !from.Before(until) {
		return
	}
	if n := len(p.list); n > 0 && from.Before(p.list[n-1].until) {
		p.list = p.list[:0]
	}
	if len(p.list) == remembered {
		p.list = append(p.list[:0], p.list[1:]...)
	}
	p.list = append(p.list, span{from, until})
}

// forget drops all pauses but the last two, which later measurements may still cover.
func (p *pauses) forget() {
	if n := len(p.list); n > 2 {
		p.list = append(p.list[:0], p.list[n-2:]...)
	}
}

// within returns for how long the processes were stopped between two moments. It leaves
// out the first part of each pause, in which the device works on for them.
func (p *pauses) within(from, until time.Time, tail time.Duration) time.Duration {
	var total time.Duration
	for i := len(p.list) - 1; i >= 0 && p.list[i].until.After(from); i-- {
		s := p.list[i]
		begin, end := s.from.Add(tail), s.until
		if begin.Before(from) {
			begin = from
		}
		if end.After(until) {
			end = until
		}
		total += max(end.Sub(begin), 0)
	}
	return total
}

// since returns how long the processes had run at a moment since the last pause, and
// whether they ran then. Before the first pause they count as having run for long.
func (p *pauses) since(at time.Time) (ran time.Duration, runs bool) {
	ran = time.Hour
	for _, s := range p.list {
		switch {
		case !at.Before(s.until):
			ran = at.Sub(s.until)
		case !at.Before(s.from):
			return 0, false
		}
	}
	return ran, true
}

// worked returns the share of the time that a device worked for the processes, over whole
// cycles.
func (p *pauses) worked(tail time.Duration) float64 {
	n := len(p.list)
	if n < 2 {
		return 1
	}
	first, last := p.list[0].from, p.list[n-1].from
	return 1 - float64(p.within(first, last, tail))/float64(last.Sub(first))
}
