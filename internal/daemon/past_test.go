package daemon

import (
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// The leases that have ended are known after a restart, and their ids are free.
func TestPastLeasesSurviveARestart(t *testing.T) {
	p := newPlace(t, "sim:1")
	c, stop := p.start(t)
	for range 2 {
		if _, err := c.Allocate(t.Context(), api.Allocate{ID: "embedder-1", Service: "embedder", Memory: 4096}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Deallocate(t.Context(), "embedder-1"); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = p.start(t)
	all, err := c.PastLeases(t.Context(), client.PastQuery{Service: "embedder"})
	if err != nil || len(all.Leases) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	newest := all.Leases[0]
	if newest.ID != "embedder-1" || newest.How != "released" || newest.Parts[0].Memory != 4096 || newest.Fence <= all.Leases[1].Fence || newest.Ended.Before(newest.Granted) {
		t.Errorf("the newest is %+v", newest)
	}
}
