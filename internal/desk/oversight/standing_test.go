package oversight

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/lease"
)

// What cannot be written is written when there is room again.
func TestStandingsAreWrittenInTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later", "health.json")
	synctest.Test(t, func(t *testing.T) {
		s, damage := OpenStandings(path)
		if damage != nil {
			t.Fatal(damage)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var complaints []error
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, func(err error) { complaints = append(complaints, err) }) }()
		s.Changed("GPU-a", health.Standing{Phase: health.Quarantined})
		time.Sleep(time.Minute) // simulated
		synctest.Wait()
		if len(complaints) != 1 {
			t.Errorf("complained %v, want once", complaints)
		}
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // simulated
		synctest.Wait()
		if again, damage := OpenStandings(path); damage != nil || again.All()["GPU-a"].Phase != health.Quarantined {
			t.Errorf("written %+v, %v", again, damage)
		}
		cancel()
		<-done
	})
}

// TestShrunkLeasesMayUseWhatTheyHad: berth shrank the lease, and its programs were
// not asked.
func TestShrunkLeasesMayUseWhatTheyHad(t *testing.T) {
	w := &world{holdings: []lease.Holding{
		{Lease: &lease.Lease{ID: "shrunk", Asked: 4096}, Part: lease.Part{GPU: "GPU-a", Memory: 1024}, Measured: 2048},
		{Lease: &lease.Lease{ID: "plain"}, Part: lease.Part{GPU: "GPU-a", Memory: 1024}, Measured: 2048},
	}}
	got := w.oversight().holdings("GPU-a", w.holdings, noon)
	if len(got) != 2 || got[0].Leased != 4096 || got[1].Leased != 1024 {
		t.Errorf("the watchdog judges %+v", got)
	}
}
