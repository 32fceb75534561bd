package daemon

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/history/series"
)

// remember runs the past beside a daemon, and returns what ends it.
func (w *world) remember(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.keepPast(ctx) }()
	return func() {
		cancel()
		<-done
		w.stop()
	}
}

// What was measured can be asked for, over the API, until the past is turned off.
func TestAsking(t *testing.T) {
	p := newPlace(t, scenario(t, threePrograms))
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		defer w.remember(t)()
		ctx := t.Context()
		if _, err := w.Acquire(ctx, api.LeaseRequest{ID: "train", Memory: 4096, Service: "trainer", Binding: "named"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150*time.Second + 500*time.Millisecond) // simulated
		for expr, want := range map[string]float64{
			`up{job="berth"}`:     1,
			`gpu_memory_total_mb`: 143771,
			`count_over_time(gpu_power_usage_watts[1m] offset 3s)`: 60,
			`sum(gpu_service_memory_leased_mb{service="trainer"})`: 4096,
			`berth_lease_memory_mb{service="trainer"}`:             4096,
			`count(gpu_temperature_celsius)`:                       1,
		} {
			found, err := w.Query(ctx, expr, time.Time{})
			if err != nil || len(found.Series) != 1 || found.Series[0].Points[0].Value != want {
				t.Errorf("%s is %+v, %v; want %v", expr, found, err, want)
			}
		}
		over, err := w.QueryRange(ctx, `gpu_power_usage_watts`, client.QueryRange{From: time.Now().Add(-time.Minute), To: time.Now(), Step: 15 * time.Second})
		if err != nil || len(over.Series) != 1 || len(over.Series[0].Points) != 5 {
			t.Errorf("the last minute is %+v, %v", over, err)
		}
		if described := w.recorder.Metadata(); !slices.ContainsFunc(described, func(m series.Metric) bool { return m.Name == "gpu_power_usage_watts" && m.Kind == series.Gauge }) {
			t.Errorf("the described metrics are %v", described)
		}
		settings := remembering(w.settings.load().Config)
		settings.Off = true
		w.past.Configure(settings)
		_, err = w.Query(ctx, "up", time.Time{})
		if problem := (*api.Problem)(nil); !errors.As(err, &problem) || problem.Status != http.StatusNotFound || problem.Code != "past_off" || !strings.Contains(problem.Detail, "past.store") {
			t.Errorf("with the past off: %v", err)
		}
	})
}
