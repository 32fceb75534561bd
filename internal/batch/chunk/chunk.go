// Package chunk decides how to hand records to workers: what a batch will cost,
// which records go first, how many go together, and what to do with a batch
// that a worker did not finish.
//
// It holds numbers, not records, and has no effects; package batch carries out
// its decisions.
//
// Pure: no clock, no I/O.
package chunk

import "math"

// Limits holds the limits that the user sets.
type Limits struct {
	Min, Max int     // records in a batch
	Seconds  float64 // approximate longest duration of a batch
	Singly   bool    // whether to share out single records in the end, whatever the call costs
}

// Situation describes a run at the moment when a worker asks for a batch.
type Situation struct {
	Workers int     // workers that share what is left
	Pending int     // records that wait
	Weight  float64 // weight of those records
	Seconds float64 // time of one worker for all that is left, unread records included
	Ending  bool    // whether nothing more will be read

	Largest int     // records in the largest batch that came back on this GPU; 0 if none has
	Cap     int     // records in a batch that still fit into memory; 0 if no limit is known
	Speed   float64 // multiplier of the GPU, from 0 to 1
}

// Budget is the size of the next batch.
type Budget struct {
	AtLeast int     // records to take even if they take longer
	Records int     // most records to take
	Seconds float64 // how long they may take together; 0 if unknown
}

const (
	// shares is the number of batches that each worker's part of the rest is cut into:
	// batches get smaller towards the end, so that all workers end together.
	shares = 4
	// worthwhile is how many times as long as the call the records of a batch should
	// take: smaller batches waste the GPU.
	worthwhile = 3
)

// Plan sizes the next batch for a worker. Batches double while a GPU is new,
// aim for the time that the user allows, share out what is left towards the
// end, and do not go below the size where the call itself would cost more than
// the records.
func Plan(l Limits, m Model, s Situation) Budget {
	workers := max(s.Workers, 1)
	top := max(l.Max, 1)
	if s.Cap > 0 {
		top = min(top, s.Cap)
	}
	if s.Speed < 1 {
		top = max(1, int(float64(top)*s.Speed))
	}
	fair := max(1, ceilDiv(s.Pending, workers)) // an equal part of what waits
	least := l.Min
	if !l.Singly {
		least = max(least, m.worthwhile(s))
	}
	least = max(1, min(least, top, fair))
	most := min(top, max(1, l.Min, 2*s.Largest))
	if s.Ending {
		most = min(most, ceilDiv(fair, shares))
	}
	b := Budget{AtLeast: least, Records: max(least, most), Seconds: l.Seconds}
	if m.Known {
		b.Seconds = min(b.Seconds, s.Seconds/float64(workers*shares))
	}
	return b
}

// worthwhile returns the smallest batch whose time is not mostly the call that
// carries it. Only a certain cost of the call counts, and only if records cost
// something too: single records share out best.
func (m Model) worthwhile(s Situation) int {
	if !m.Known || s.Pending == 0 || m.CallSure == 0 {
		return 1
	}
	record := m.Each + m.PerWeight*s.Weight/float64(s.Pending)
	switch {
	case record > 0:
		return int(min(math.Ceil(worthwhile*m.CallSure/record), 1<<30))
	case m.Varied: // a batch takes as long with many records as with few
		return 1 << 30
	}
	return 1 // a record and its call cannot be told apart yet
}

// Room reports whether a batch may have this many records of this weight.
func (b Budget) Room(m Model, records int, weight float64) bool {
	if records <= b.AtLeast {
		return true
	}
	return records <= b.Records && (!m.Known || m.Seconds(records, weight) <= b.Seconds)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Cap tracks how many records fit into memory. The zero value knows no limit.
type Cap struct {
	records int
	good    int // batches of that size that went well since
	held    int // records in the largest batch that went well since memory first ran out
}

// Records returns how many records may go together, or 0 if no limit is known.
func (c Cap) Records() int { return c.records }

// Exceeded returns the cap after a batch of n records ran out of memory. A record that
// is too large by itself says nothing about how many others fit: the cap is again the
// largest batch that went well, or none if no other batch was too large.
func (c Cap) Exceeded(n int) Cap {
	if n == 1 && (c.records == 0 || c.held > 0) {
		return Cap{records: c.held, held: c.held}
	}
	return Cap{records: max(1, n/2), held: c.held}
}

// Held returns the cap after a batch of n records succeeded: after every few full batches
// it grows by an eighth, until it no longer limits anything.
func (c Cap) Held(n, most int) Cap {
	if c.records == 0 {
		return c
	}
	c.held = max(c.held, n)
	if n < c.records {
		return c
	}
	c.good++
	if c.good < capPatience {
		return c
	}
	c = Cap{records: c.records + max(1, c.records/8), held: c.held}
	if c.records >= most {
		return Cap{}
	}
	return c
}

const capPatience = 16
