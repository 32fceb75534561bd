package lease

import (
	"testing"
	"time"
)

func TestTallies(t *testing.T) {
	b := newBook(t, roomy, roomy)
	request := func(id, service string) *Request {
		h := alice()
		h.Service = service
		return &Request{ID: id, Holder: h, GPUs: 1, Memory: 40, Slots: 2, Binding: ByName, Requested: noon, Deadline: noon.Add(time.Hour)}
	}
	grant(t, b, request("a", "embedder"), dev(0))
	grant(t, b, request("b", "embedder"), dev(1))
	grant(t, b, request("c", ""), dev(1))
	b.Observe(only(b, "a"), dev(0), 50)
	b.Observe(only(b, "b"), dev(1), 5)
	apply(t, b, Park{Key: only(b, "b"), By: actor(alice())}, noon)
	apply(t, b, Ask{request("d", "trainer")}, noon)
	want := map[Party]Tally{
		{"embedder", "alice"}: {Usage: Usage{Memory: 40, Slots: 2}, Measured: 55, Leases: 2},
		{"", "alice"}:         {Usage: Usage{Memory: 40, Slots: 2}, Leases: 1},
		{"trainer", "alice"}:  {Waiting: 1},
	}
	got := b.Tallies()
	for party, tally := range want {
		if got[party] != tally {
			t.Errorf("%+v: %+v, want %+v", party, got[party], tally)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d parties, want %d", len(got), len(want))
	}
}
