package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/file/inventory"
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

// A daemon that is killed has not written down the newest ends of leases. The next one finds
// them in the journal, with who ended them.
func TestPastLeasesSurviveAKill(t *testing.T) {
	p := newPlace(t, "sim:1")
	c, _ := p.start(t)
	if _, err := c.Allocate(t.Context(), api.Allocate{ID: "embedder-1", Service: "embedder", Memory: 4096}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Deallocate(t.Context(), "embedder-1"); err != nil {
		t.Fatal(err)
	}
	before, err := c.PastLeases(t.Context(), client.PastQuery{})
	if err != nil || len(before.Leases) != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	killed := newPlace(t, "sim:1")
	if err := os.CopyFS(filepath.Join(killed.flags["daemon.state_dir"], inventory.Leases), os.DirFS(filepath.Join(p.flags["daemon.state_dir"], inventory.Leases))); err != nil {
		t.Fatal(err)
	}
	c, _ = killed.start(t)
	after, err := c.PastLeases(t.Context(), client.PastQuery{})
	if err != nil || len(after.Leases) != 1 {
		t.Fatalf("%+v, %v", after, err)
	}
	after.Leases[0].Peak, after.Leases[0].Energy = before.Leases[0].Peak, before.Leases[0].Energy // that is not in the journal
	if want, got := fmt.Sprintf("%+v", before.Leases), fmt.Sprintf("%+v", after.Leases); got != want {
		t.Errorf("the past lease is %s, want %s", got, want)
	}
}
