package drm

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Usage remembers for some seconds how much the engines of a card have worked for each
// process, and computes shares of the time from the differences. It remembers clients from
// one reading to the next only: a user can have very many.
type Usage struct {
	past    []moment
	clients map[counter]Engine // of the newest moment
}

// moment has how long the engines had worked until then, in percent of a second.
type moment struct {
	at   time.Time
	work map[part]gpu.Percent
}

// part is one process on one engine.
type part struct {
	pid    int
	engine string
}

// counter is one client of one process on one engine.
type counter struct {
	part
	client uint64
}

// mostMoments is the number of moments to keep: a minute of samples, or some seconds if
// somebody asks ten times a second.
const mostMoments = 64

// Add adds the reading at a time.
func (u *Usage) Add(at time.Time, used []Used) {
	m, clients := moment{at: at, work: map[part]gpu.Percent{}}, map[counter]Engine{}
	if n := len(u.past); n > 0 && at.Before(u.past[n-1].at) {
		u.past, u.clients = nil, nil // the clock was set back
	}
	var before moment
	if n := len(u.past); n > 0 {
		before = u.past[n-1]
	}
	took := at.Sub(before.at)
	for _, p := range used {
		for _, c := range p.Clients {
			for name, e := range c.Engines {
				id := part{p.PID, name}
				sum, begun := m.work[id]
				if !begun {
					sum = before.work[id]
				}
				if was, known := u.clients[counter{id, c.ID}]; known { // else nobody knows when it did its work
					sum += shareOf(was, e, took) * gpu.Percent(took.Seconds())
				}
				m.work[id], clients[counter{id, c.ID}] = sum, e
			}
		}
	}
	u.clients = clients
	if len(u.past) == mostMoments {
		u.past = slices.Delete(u.past, 0, 1)
	}
	u.past = append(u.past, m)
}

// Shares are shares of a stretch of time.
type Shares struct {
	From, Until time.Time
	Process     map[int]gpu.Percent // share of its busiest engine, by pid
	Card        gpu.Percent         // share of the busiest engine, for all processes together
}

// Since returns the shares from the oldest moment that is not before since to the newest
// moment. With fewer than two moments, there are no shares.
func (u *Usage) Since(since time.Time) Shares {
	for i := range u.past {
		if !u.past[i].at.Before(since) {
			return u.from(i)
		}
	}
	return Shares{}
}

// Over returns the shares of the last stretch of at least this length. If the past is
// shorter, they begin with the oldest moment.
func (u *Usage) Over(length time.Duration) Shares {
	n := len(u.past)
	if n == 0 {
		return Shares{}
	}
	first := 0
	for i := range u.past {
		if u.past[n-1].at.Sub(u.past[i].at) >= length {
			first = i
		}
	}
	return u.from(first)
}

// from returns the shares from a moment to the newest one.
func (u *Usage) from(i int) Shares {
	n := len(u.past)
	first := &u.past[i]
	last := &u.past[n-1]
	s := Shares{From: first.at, Until: last.at, Process: map[int]gpu.Percent{}}
	took := last.at.Sub(first.at)
	if took <= 0 {
		return s
	}
	ofCard := map[string]gpu.Percent{}
	for p, now := range last.work {
		before, known := first.work[p]
		if !known {
			continue // it came in between
		}
		share := (now - before) / gpu.Percent(took.Seconds())
		s.Process[p.pid] = max(s.Process[p.pid], min(share, 100))
		ofCard[p.engine] += share
	}
	for _, share := range ofCard {
		s.Card = max(s.Card, min(share, 100))
	}
	return s
}

// shareOf returns the share of the time that an engine worked for a client. A counter
// that went back counts as not moved.
func shareOf(before, now Engine, took time.Duration) gpu.Percent {
	if now.Busy <= before.Busy {
		return 0
	}
	busy, whole := float64(now.Busy-before.Busy), float64(max(took.Nanoseconds(), 1))
	if now.Total > 0 || before.Total > 0 {
		if now.Total <= before.Total {
			return 0
		}
		whole = float64(now.Total - before.Total)
	}
	return gpu.Percent(100 * busy / whole / float64(max(now.Capacity, 1)))
}

// Processes returns the users of a card in berth's words, by pid. It never returns nil:
// an empty list says that nobody uses the card.
func Processes(used []Used) []gpu.Process {
	list := []gpu.Process{}
	for _, u := range used {
		p := gpu.Process{PID: u.PID, Name: u.Name, Kind: gpu.Graphics}
		var sum uint64
		counted := false
		for i := range u.Clients {
			c := &u.Clients[i]
			sum, counted = addUp(sum, c.Memory), counted || c.Counted
			if c.Computes() {
				p.Kind = gpu.Compute
			}
		}
		if counted {
			p.Memory = gpu.Some(gpu.MiBOf(sum))
		}
		list = append(list, p)
	}
	return slices.Clip(list)
}
