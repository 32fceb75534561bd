package promexport

import (
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/enforce/reclaim"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/hooks"
	"github.com/berth-gpu/berth/internal/history/hours"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

var update = flag.Bool("update", false, "write the golden page anew")

// two devices: one with every metric, one that fell off the bus and must not
// repeat what it last said.
func readings() []monitor.Reading {
	full := gpu.Sample{
		Utilization: gpu.Some(gpu.Percent(42)), MemoryBusy: gpu.Some(gpu.Percent(17)),
		MemoryTotal: gpu.Some(gpu.MiB(8192)), MemoryUsed: gpu.Some(gpu.MiB(2048)), MemoryFree: gpu.Some(gpu.MiB(6144)),
		Temperature: gpu.Some(gpu.Celsius(71.5)), MemoryTemperature: gpu.Some(gpu.Celsius(80)), Power: gpu.Some(gpu.Watts(115.2)),
		ClockSM: gpu.Some(gpu.MHz(2460)), ClockMemory: gpu.Some(gpu.MHz(8501)),
		Throttle: []gpu.ThrottleReason{gpu.ThrottlePowerCap},
		Slow: gpu.Slow{
			Energy: gpu.Some(1234.5), Fan: gpu.Some(gpu.Percent(30)), PCIeTx: gpu.Some(1.5), PCIeRx: gpu.Some(2.5),
			ECCCorrected: gpu.Some(int64(3)), ECCUncorrected: gpu.Some(int64(0)),
		},
	}
	return []monitor.Reading{
		{Device: gpu.Device{UUID: "GPU-a", Index: 0, Name: `Quadro "quoted"`, PowerLimit: gpu.Some[gpu.Watts](300)}, Sample: full, Sampled: true, State: gpu.Normal, Multiplier: 0.5, Cause: monitor.CauseForecast, Health: gpu.Healthy, Outlook: ahead()},
		{Device: gpu.Device{UUID: "GPU-b", Index: 1, Name: "H200"}, Sample: full, Sampled: true, State: gpu.Unavailable, Cause: monitor.CauseState, Health: gpu.HealthUnknown, Outlook: ahead()},
	}
}

// ahead is an outlook that passes temp_normal in 40 s and no other threshold.
func ahead() *monitor.Outlook {
	o := &monitor.Outlook{Power: 300, Settles: heat.Guess{Mean: 78, Low: 76, High: 80}, Crossings: thermal.Crossings(gpu.DefaultThresholds())}
	o.Crossings[0].Ever, o.Crossings[0].In = true, 40*time.Second
	return o
}

func exporter(t testing.TB) *Exporter { return sampling(t, true) }

func sampling(t testing.TB, watching bool) *Exporter {
	e, _ := writing(t, watching, journal.Forgetful())
	return e
}

func writing(t testing.TB, watching bool, log journal.Journal) (*Exporter, *ledger.Ledger) {
	book, err := ledger.Open(ledger.Options{
		Settings:  quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{Reserve: 512} }},
		Processes: process.Proc(), CPUs: 8,
		Open: func(func(journal.Entry) error) (journal.Journal, error) { return log, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readings() {
		r.Device.MemoryTotal = 8192
		book.Observe(placement.Observation{Device: r.Device, Sample: &r.Sample, State: r.State, Health: r.Health, Reason: "of the test"})
	}
	worked := []runs.Total{{GPU: "GPU-a", Records: 7, Latency: api.Latency{Bounds: []float64{0.1, 1}, Counts: []uint64{4, 2, 1}, Sum: 3.5}}}
	reported := []throughput.Total{
		{Service: "embedder", GPU: "GPU-a", Count: 40, Latency: api.Latency{Bounds: []float64{0.1, 1}, Counts: []uint64{30, 0, 0}, Sum: 1.5}},
		{Service: "other", Count: 3},
	}
	used := energy.New(energy.Options{})
	working := energy.Process{PID: 1, Lease: &lease.Lease{Fence: 1, Holder: lease.Holder{Service: "embedder"}}}
	for second := range 3 {
		used.Observe(gpu.Device{UUID: "GPU-a", PowerLimit: gpu.Some(gpu.Watts(300))}, &gpu.Sample{Time: time.Unix(int64(second), 0), Power: gpu.Some(gpu.Watts(130))}, []energy.Process{working})
	}
	devices := func() Devices { return Devices{Readings: readings(), Watching: watching} }
	added := hours.New(func(p lease.Party) lease.Party { return p })
	for second := range int64(3) {
		added.Look(time.Unix(second, 0), standing{})
	}
	return New(Sources{
		Devices: devices,
		Look: func() Values {
			return Values{
				Devices: devices(), Ledger: book, Batches: worked, Services: reported, Energy: used, Hours: added, Limits: allow(), Idle: 1,
				Paced: []Paced{{GPUs: []string{"GPU-a"}, Share: 0.5, Measured: gpu.Some(0.52)}},
				Jobs: &keeper.Usage{
					Tasks: map[job.State]int{job.Waiting: 4, job.Running: 2, job.Done: 9}, Ended: map[job.State]uint64{job.Done: 7, job.Failed: 1},
				},
				Parking: park.Counts{
					Parked: 2, Host: 3072, Moved: map[park.Goal]gpu.MiB{park.Away: 4096, park.Back: 1024}, Turns: 3,
					Took: map[park.Goal]time.Duration{park.Away: 2500 * time.Millisecond, park.Back: time.Second}, Failures: map[move.Step]int{move.Checkpoint: 1},
				},
				Programs: &Programs{
					Services: []api.Service{
						{Name: "chat", User: "ada", State: "ready", Open: 2, Waiting: 1, Switches: 4, Took: api.ServiceTimes{Start: api.ServiceTime{Seconds: 9, Count: 3}, Park: api.ServiceTime{Seconds: 2.5, Count: 1}}},
						{Name: "draw", User: "ada", State: "failed", Failure: &api.ServiceFailure{Count: 4}},
					},
					Counted: []api.FrontCounted{{Service: "chat", Requests: 100, Failed: 3, Refused: 7, TokensIn: 5000, TokensOut: 9000, Seconds: 12.5, Waited: 40, FirstByte: []uint64{50, 20, 10, 5, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1}}},
				},
				Past:      past.Cost{Bytes: 84 << 20, Series: 900, Samples: 1234567, Dropped: 3, Written: time.Unix(1_700_000_000, 0)},
				Evaluated: map[string]time.Time{"berth": time.Unix(1_700_000_015, 5e8)},
				Optimized: reclaim.Counts{Runs: 5, Freed: map[string]gpu.MiB{"trim": 2048, "park": 0}},
			}
		},
		Version: "test", Labels: &Names{}, Hooks: []string{"pager"}, TokenFailures: []string{"unknown", "expired"},
	}), book
}

// standing is a lease that uses half of what it holds, and a request that waits.
type standing struct{}

func (standing) Standing() []ledger.Held {
	return []ledger.Held{{
		Lease:    &lease.Lease{Fence: 1, Holder: lease.Holder{User: "anna", Service: "embedder"}, Parts: []lease.Part{{GPU: "GPU-a", Memory: 2048}}},
		Measured: []gpu.Opt[gpu.MiB]{gpu.Some(gpu.MiB(1024))},
	}}
}

func (standing) Tallies() map[lease.Party]lease.Tally {
	return map[lease.Party]lease.Tally{{User: "bob"}: {Waiting: 1}}
}

func scrape(h http.Handler) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// What was measured before monitoring stopped is not repeated: an alert would
// stay quiet on it.
func TestStoppedMonitoringShowsNoSamples(t *testing.T) {
	if got := scrape(sampling(t, false)); strings.Contains(got, "\ngpu_temperature_celsius") || strings.Contains(got, "\ngpu_throttle_reason") || !strings.Contains(got, "\nberth_monitoring 0") {
		t.Errorf("the page:\n%s", got)
	}
}

// fullDisk is a journal that takes nothing.
type fullDisk struct{ journal.Journal }

func (fullDisk) Append([][]byte, journal.Care) error {
	return &journal.WriteError{Op: "write", Full: true, Err: errors.New("no space left")}
}

func TestTroubleWithTheJournal(t *testing.T) {
	e, _ := writing(t, true, fullDisk{journal.Forgetful()})
	if got := scrape(e); !strings.Contains(got, "\nberth_journal_trouble 1\n") {
		t.Errorf("the page:\n%s", got)
	}
}

func TestPage(t *testing.T) {
	e, book := writing(t, true, journal.Forgetful())
	run(t, book)
	hold(t, book, "anna", "embedder", 2048)
	hold(t, book, "bob", "", 1024)
	e.Cost(monitor.Cost{Backend: "sim", GPU: "GPU-a", Tier: monitor.TierFast, Duration: 20 * time.Microsecond})
	e.Cost(monitor.Cost{Backend: "sim", GPU: "GPU-b", Tier: monitor.TierFast, Err: errors.New("gone")})
	e.Event(gpu.Event{Code: gpu.EventStateChange, Also: []gpu.EventCode{gpu.EventThrottle}})
	e.Decided("granted", 400*time.Microsecond)
	for _, status := range []string{"refused", "refused", "timeout"} {
		e.Decided(status, time.Millisecond)
	}
	e.Delivery("pager", hooks.Delivered)
	e.Lost(gpu.Warning, Rationed)
	e.HookDropped("pager")
	e.Called("GET /api/leases/{id}", "anna")
	var ours strings.Builder
	for line := range strings.Lines(scrape(e)) {
		if strings.Contains(line, "gpu_") || strings.Contains(line, "berth_") {
			ours.WriteString(line)
		}
	}
	const golden = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(ours.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), ours.String()); diff != "" {
		t.Errorf("the page is not the golden one; if that is right, run the test with -update (-want +got):\n%s", diff)
	}
}

func TestDaemonShowsItsOwnCost(t *testing.T) {
	text := scrape(exporter(t))
	for _, name := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines", "process_open_fds"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("%s is not on the page", name)
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	e := exporter(b)
	for b.Loop() {
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}

// allow returns the limits of a lab.
func allow() *quota.Rules {
	return &quota.Rules{
		Default: quota.Configured{Slots: gpu.Some(8)},
		Users:   map[int]quota.User{1000: {Name: "ada", Configured: quota.Configured{Memory: gpu.Some(gpu.MiB(81920)), Calls: gpu.Some(50.0)}}},
		Named:   map[string]quota.User{"default": {}, "token:ci": {Name: "token:ci", Configured: quota.Configured{Leases: gpu.Some(4)}}},
		Groups:  map[int]quota.Group{100: {Name: "students", Together: quota.Together{Memory: gpu.Some(gpu.MiB(1024))}}},
	}
}
