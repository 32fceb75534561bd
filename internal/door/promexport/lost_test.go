package promexport

import (
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/report"
)

// A GPU that does not answer for a part of the time is in the report for all of it, and so is one
// that does not say how much memory it has.
func TestReportOfAGPUThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t}
		var err error
		l.store, err = past.Open(filepath.Join(t.TempDir(), "past"), past.Options{Settings: past.Settings{Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: 1024, Every: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.store.Close()
		began := time.Now()
		devices := func() Devices {
			on, s := l.device()
			a := monitor.Reading{Device: on, Sample: s, Sampled: true, State: gpu.Optimal, Health: gpu.Healthy}
			if m := time.Since(began); m > 10*time.Minute && m < 40*time.Minute {
				a.Stale, a.State, a.Health = true, gpu.Unavailable, gpu.Unhealthy
			}
			b := a
			if !a.Stale {
				b.Sample.MemoryTotal = gpu.Opt[gpu.MiB]{}
			}
			b.Device.UUID, b.Device.Index = "GPU-without-total", 1
			return Devices{Watching: true, Readings: []monitor.Reading{a, b}, Drained: map[string]bool{"GPU-a": a.Stale}}
		}
		e := New(Sources{Devices: devices, Look: func() Values { return Values{Devices: devices()} }, Labels: &Names{}})
		r := &Recorder{from: &e.from, cells: map[place]*cell{}, lines: map[string]*cell{}, instance: "box"}
		for i := range 3600 {
			list := r.Devices()
			r.round++
			if i%10 == 0 {
				list = append(list, r.sample("up", 1, 1, nil))
			}
			if err := l.store.Write(time.Now(), list); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		for _, from := range []time.Time{began, began.Add(-23 * time.Hour)} {
			p := l.report(report.Period{From: from, Until: time.Now()})
			for _, d := range p.GPUs {
				away, all := 0.0, 3599.0
				if d.GPU == "GPU-a" {
					away = 1799
				}
				near := func(what string, got, want float64) {
					if math.Abs(got-want) > 15 {
						t.Errorf("%s over %s: %s is %.0f, want %.0f", d.GPU, time.Since(from), what, got, want)
					}
				}
				near("OPTIMAL", d.States[gpu.Optimal], all-1799)
				near("UNAVAILABLE", d.States[gpu.Unavailable], 1799)
				near("unhealthy", d.Unhealthy, 1799)
				near("drained", d.Drained, away)
				if !d.Utilization.Known() {
					t.Errorf("%s has no load", d.GPU)
				}
			}
		}
	})
}
