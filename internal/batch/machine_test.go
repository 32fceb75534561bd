package batch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// machine is a Leaser of some GPUs with places on each.
type machine struct {
	mu    sync.Mutex
	gpus  []*testGPU
	more  chan struct{} // closed and replaced when a place comes free
	speed func(uuid string) float64
	taken int
	err   error // what Acquire answers
	why   func(signalled bool) string

	trouble string // with a GPU that wants its places back
	start   func(pid int) error
}

type testGPU struct {
	GPU
	places int
	gone   bool
	grants map[*testGrant]bool
}

type testGrant struct {
	lost, recall chan struct{}
	ended        bool
}

func newMachine(gpus, places int) *machine {
	m := &machine{more: make(chan struct{})}
	for range gpus {
		m.join(places)
	}
	return m
}

// join adds a GPU.
func (m *machine) join(places int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := len(m.gpus)
	m.gpus = append(m.gpus, &testGPU{GPU: GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, Name: "test"}, places: places, grants: map[*testGrant]bool{}})
	m.tell()
}

func (m *machine) tell() {
	close(m.more)
	m.more = make(chan struct{})
}

func (m *machine) Acquire(ctx context.Context, req WorkerRequest) (Grant, error) {
	for {
		g, more, err := m.find(req)
		if err != nil {
			return Grant{}, err
		}
		if g != nil {
			return *g, nil
		}
		select {
		case <-ctx.Done():
			return Grant{}, ctx.Err()
		case <-more:
		}
	}
}

func (m *machine) hopeless(avoid []string) bool {
	for _, g := range m.gpus {
		if !g.gone && !slices.Contains(avoid, g.UUID) {
			return false
		}
	}
	return true
}

// find takes a place on the GPU with the fewest workers, and of those the one
// with the fewest failures, if there is one now.
func (m *machine) find(req WorkerRequest) (*Grant, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, nil, m.err
	}
	if m.hopeless(req.Avoid) {
		return nil, nil, fmt.Errorf("%w: every GPU is to be avoided", ErrRefused)
	}
	var best *testGPU
	for _, g := range m.gpus {
		if !g.gone && len(g.grants) < g.places && !slices.Contains(req.Avoid, g.UUID) && (best == nil ||
			cmp.Or(cmp.Compare(len(g.grants), len(best.grants)), cmp.Compare(req.Failures[g.UUID], req.Failures[best.UUID])) < 0) {
			best = g
		}
	}
	if best == nil {
		return nil, m.more, nil
	}
	t := &testGrant{lost: make(chan struct{}), recall: make(chan struct{})}
	best.grants[t] = true
	m.taken++
	grant := &Grant{GPU: best.GPU, Env: []string{"CUDA_VISIBLE_DEVICES=" + best.UUID}, Lost: t.lost, Recall: t.recall, Why: m.why, Started: m.start, Trouble: func() string { return m.trouble }}
	if m.speed != nil {
		grant.Speed = func() float64 { return m.speed(best.UUID) }
	}
	grant.Release = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !best.grants[t] {
			panic("released twice")
		}
		delete(best.grants, t)
		m.tell()
	}
	return grant, nil, nil
}

// lose makes a GPU fall off the bus.
func (m *machine) lose(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gpus[i].gone = true
	m.endAll(i, func(t *testGrant) chan struct{} { return t.lost })
}

// loseLeases ends the leases on a GPU that stays.
func (m *machine) loseLeases(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endAll(i, func(t *testGrant) chan struct{} { return t.lost })
}

// recallAll wants the places of a GPU back, and gives no new ones.
func (m *machine) recallAll(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gpus[i].gone = true
	m.endAll(i, func(t *testGrant) chan struct{} { return t.recall })
}

func (m *machine) endAll(i int, which func(*testGrant) chan struct{}) {
	for t := range m.gpus[i].grants {
		if !t.ended {
			t.ended = true
			close(which(t))
		}
	}
}

// held is how many places are taken.
func (m *machine) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, g := range m.gpus {
		n += len(g.grants)
	}
	return n
}
