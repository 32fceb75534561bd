package daemon

import (
	"context"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/lease"
)

// Records count on GPUs on which their user holds a lease, and for a moment
// after: a runner gives its leases back before it reports for the last time.
func TestRecordsCountForHolders(t *testing.T) {
	p := newPlace(t, "sim:2")
	ctx, cancel := context.WithCancel(t.Context())
	d := p.open(t, ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() { cancel(); <-done }()
	c, err := client.New(client.Options{Socket: p.flags["daemon.socket"]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for c.Ping(ctx) != nil {
		select {
		case err := <-done:
			done <- err
			t.Fatalf("the daemon did not start: %v", err)
		default:
		}
	}
	report := func(n int64) {
		t.Helper()
		_, err := c.ReportBatch(ctx, api.Batch{ID: "b", Output: "out", Stage: "running", GPUs: []api.BatchGPU{{GPU: "SIM-h200-0", Done: n}, {GPU: "SIM-h200-1", Done: n}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, want uint64) {
		t.Helper()
		all := d.batches.Totals()
		if want == 0 && len(all) == 0 {
			return
		}
		if len(all) != 1 || all[0].GPU != "SIM-h200-0" || all[0].Records != want {
			t.Errorf("%s: %+v, want %d records on the first GPU alone", when, all, want)
		}
	}
	report(1000)
	expect("without a lease", 0)
	if _, err := c.Allocate(ctx, api.Allocate{ID: "mine", Memory: 1024, GPU: "0"}); err != nil {
		t.Fatal(err)
	}
	ours := d.ledger.View().Leases[0].Holder.Owner()
	if !d.holds(ours, "SIM-h200-0") || d.holds(lease.Owner{UID: 4712}, "SIM-h200-0") || d.holds(ours, "SIM-h200-1") {
		t.Error("the test holds a lease on the first device, and nobody else does")
	}
	report(1007)
	expect("with a lease", 7)
	if _, err := c.Deallocate(ctx, "mine"); err != nil {
		t.Fatal(err)
	}
	report(1009)
	expect("at its end", 9)
}
