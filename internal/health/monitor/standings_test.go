package monitor_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// What cannot be written is written when there is room again.
func TestStandingsAreWrittenInTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later", "health.json")
	synctest.Test(t, func(t *testing.T) {
		s, damage := monitor.OpenStandings(path)
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
		if again, damage := monitor.OpenStandings(path); damage != nil || again.All()["GPU-a"].Phase != health.Quarantined {
			t.Errorf("written %+v, %v", again, damage)
		}
		cancel()
		<-done
	})
}
