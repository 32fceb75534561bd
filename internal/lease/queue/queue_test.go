package queue

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
)

// model is a queue in its simplest form: a list that is sorted again each time.
type model struct {
	*rand.Rand
	queue *Queue[int, int]
	ranks []Rank // of the lanes
	list  []waits
	last  int
	gone  int // the last one that has left
}

type waits struct {
	lane int
	Entry[int]
}

// Over random histories, a queue is what its model says, and so is every way through it.
func TestQueueIsItsModel(t *testing.T) {
	for seed := range uint64(1000) {
		lanes, changes := 6, 40
		if seed%40 == 0 { // long lanes, whose bounds are not computed again for each who leaves
			lanes, changes = 1+int(seed/40%2), 200
		}
		m := &model{Rand: rand.New(rand.NewPCG(seed, 1)), ranks: make([]Rank, lanes)}
		m.queue = New[int, int](func(lane *int) Rank { return m.ranks[*lane] })
		for range changes {
			m.change()
			m.compare(t, seed)
			m.walk(t, seed)
		}
		if t.Failed() {
			return
		}
	}
}

// change makes a random change to both.
func (m *model) change() {
	switch n := m.IntN(10); {
	case n < 6:
		m.last++
		w := waits{m.IntN(len(m.ranks)), Entry[int]{Request: m.last, Since: int64(m.IntN(4)), Arrival: uint64(m.last), Load: m.load(), Total: m.load()}}
		m.list = append(m.list, w)
		m.queue.Add(w.lane, w.Entry)
	case n < 9 && len(m.list) > 0:
		at := m.IntN(len(m.list))
		m.gone = m.list[at].Request
		m.queue.Remove(m.gone)
		m.list = slices.Delete(m.list, at, at+1)
	default:
		m.ranks[m.IntN(len(m.ranks))] = Rank{m.IntN(2), float64(m.IntN(2)), float64(m.IntN(2))}
		m.queue.Moved()
	}
	slices.SortFunc(m.list, func(a, b waits) int {
		p, q := m.ranks[a.lane], m.ranks[b.lane]
		return cmp.Or(cmp.Compare(q.Priority, p.Priority), cmp.Compare(p.User, q.User), cmp.Compare(p.Service, q.Service),
			cmp.Compare(a.Since, b.Since), cmp.Compare(a.Arrival, b.Arrival))
	})
}

func (m *model) load() Load { return Load{gpu.MiB(m.IntN(4)), m.IntN(3)} }

// compare compares what both say of all requests.
func (m *model) compare(t *testing.T, seed uint64) {
	var want []int
	least := AnyLoad
	for i, w := range m.list {
		want = append(want, w.Request)
		least = least.Smaller(w.Load)
		lane, rank, is := m.queue.Lane(w.Request)
		if at := m.queue.Position(w.Request); at != i+1 || !is || lane != w.lane || rank != m.ranks[w.lane] {
			t.Errorf("seed %d: %d is number %d in the queue, in lane %d of %+v; it should be number %d in lane %d", seed, w.Request, at, lane, rank, i+1, w.lane)
		}
	}
	if got := m.queue.All(); !slices.Equal(got, want) {
		t.Errorf("seed %d: the queue is %v, want %v", seed, got, want)
	}
	if got := m.queue.Least(); !got.Within(least) || len(want) < 16 && got != least {
		t.Errorf("seed %d: the least is %+v, want %+v", seed, got, least)
	}
	for _, r := range []int{0, m.gone} {
		if _, _, is := m.queue.Lane(r); is || m.queue.Position(r) != 0 {
			t.Errorf("seed %d: %d does not wait, and has a place", seed, r)
		}
	}
}

// walk goes through the queue, and leaves out at random.
func (m *model) walk(t *testing.T, seed uint64) {
	var w Walk[int, int]
	w.Begin(m.queue)
	for left := slices.Clone(m.list); ; {
		if len(left) == 0 {
			if got := w.Request(); got != 0 {
				t.Errorf("seed %d: the walk goes on to %d", seed, got)
			}
			return
		}
		at := left[0]
		if got := w.Request(); got != at.Request {
			t.Errorf("seed %d: the walk is at %d, want %d", seed, got, at.Request)
			return
		}
		n, bounds := 0, Bounds{Least: AnyLoad}
		for _, other := range m.list {
			if other.lane == at.lane {
				n, bounds = n+1, bounds.with(other.Load, other.Total)
			}
			if is, want := m.queue.Compare(at.Request, other.Request) < 0, m.queue.Position(at.Request) < m.queue.Position(other.Request); is != want {
				t.Errorf("seed %d: %d is before %d: %v", seed, at.Request, other.Request, is)
			}
		}
		got, asked := w.Bounds(), n < 16
		for range m.IntN(2) * (n/16 + 1) { // it costs little by then
			got, asked = w.Bounds(), true
		}
		if !got.Least.Within(bounds.Least) || !bounds.Most.Within(got.Most) || !bounds.Total.Within(got.Total) || asked && got != bounds {
			t.Errorf("seed %d: the bounds of lane %d are %+v, want %+v", seed, at.lane, got, bounds)
		}
		if m.queue.Compare(at.Request, 0) >= 0 {
			t.Errorf("seed %d: one who does not wait is before %d", seed, at.Request)
		}
		most, how := m.load(), m.IntN(4)
		switch how {
		case 0:
			w.Leave()
		case 1:
			w.NextOther(most)
		case 2:
			w.Next(most)
		default:
			most = AnyLoad
			w.Next(most)
		}
		found := false // one of the lane at which the walk goes on
		left = slices.DeleteFunc(left[1:], func(other waits) bool {
			if found || other.lane != at.lane {
				return false
			}
			found = how != 0 && other.Load.Within(most) && (how != 1 || other.Load != at.Load)
			return !found
		})
	}
}

// What a queue does is counted, and it does nothing twice.
func TestWork(t *testing.T) {
	q := New[int, int](func(*int) Rank { return Rank{} })
	for i := range 24 { // 12 in each lane, of 1 to 12 MiB
		q.Add(i%2, Entry[int]{Request: i + 1, Arrival: uint64(i), Load: Load{gpu.MiB(i/2 + 1), 1}})
	}
	var w Walk[int, int]
	for _, c := range []struct {
		name        string
		do          func()
		least, most int
	}{
		{"compare two", func() { q.Compare(1, 2) }, 1, 1},
		{"sort all", func() { q.All() }, 23, 240},
		{"list all again", func() { q.All() }, 0, 0},
		{"begin a walk", func() { w.Begin(q) }, 1, 1},
		{"what was known from the beginning", func() { w.Bounds() }, 0, 0},
		{"pass over none", func() { w.Next(AnyLoad) }, 1, 1},
		{"begin again", func() { w.Begin(q) }, 1, 1},
		{"leave a lane in which nothing is small enough", func() { w.Next(Load{0, 1}) }, 0, 0},
		{"pass over all others of a lane", func() { w.Next(Load{1, 1}) }, 11, 11},
		{"one leaves", func() { q.Remove(1) }, 0, 0},
		{"ask once", func() { q.Least() }, 11, 11},
		{"ask again", func() { q.Least() }, 0, 0},
	} {
		before := q.Work
		if c.do(); q.Work < before+c.least || q.Work > before+c.most {
			t.Errorf("%s: %d, want %d to %d", c.name, q.Work-before, c.least, c.most)
		}
	}
	for i := range 60 { // 71 in lane 0, of which the smallest leaves
		q.Add(0, Entry[int]{Request: 100 + i, Arrival: uint64(100 + i), Load: Load{10, 1}})
	}
	q.Remove(3)
	l := q.lanes[0]
	for range len(l.places)/16 + 1 {
		q.bounds(l)
	}
	if got := q.bounds(l).Least; got.Memory != 3 {
		t.Errorf("after some have asked, the least is %v", got.Memory)
	}
}
