package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/series"
)

// systemd hears that the daemon is alive only while nothing is stuck.
func TestWatchdogOfSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var stuck error
		var told []string
		begun := time.Now()
		d := &Daemon{log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.tellAlive(ctx, 10*time.Second, func(state string) {
				told = append(told, time.Since(begun).String()+" "+state)
			}, func() error {
				mu.Lock()
				defer mu.Unlock()
				return stuck
			})
		}()
		set := func(after time.Duration, err error) {
			time.Sleep(after)
			mu.Lock()
			defer mu.Unlock()
			stuck = err
		}
		set(15*time.Second, errors.New("the ledger hangs"))
		set(60*time.Second, nil)
		time.Sleep(10 * time.Second)
		cancel()
		<-done
		if want := []string{"0s WATCHDOG=1", "10s WATCHDOG=1", "1m20s WATCHDOG=1"}; !slices.Equal(told, want) {
			t.Errorf("systemd was told %q, want %q", told, want)
		}
	})
}

// A daemon whose rules are not evaluated, or whose samples are not stored, is not
// ready, and after minutes systemd hears no more from it.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		rules := alert.New(alert.Options{Ask: func(ctx context.Context, _ string, _ time.Time) (series.Answer, error) {
			select {
			case <-hangs: // whatever its context says
			case <-t.Context().Done():
			}
			return series.Answer{Value: promql.Vector{}}, nil
		}, Event: func(gpu.Event) {}})
		rules.Configure([]alert.Group{{Name: "hot", Interval: 20 * time.Second, Rules: []alert.Rule{{Alert: "Hot", Expr: "up"}}}})
		d := &Daemon{alerts: rules}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			rules.Run(ctx)
		}()
		time.Sleep(time.Minute)
		if err := d.behind(time.Now(), soonBehind); err != nil {
			t.Errorf("a minute after the start: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := d.behind(time.Now(), soonBehind); err == nil || !strings.Contains(err.Error(), `"hot", which are evaluated every 20s, are 2m`) {
			t.Errorf("after two more: %v", err)
		}
		if err := d.behind(time.Now(), longBehind); err != nil {
			t.Errorf("systemd would hear: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if err := d.behind(time.Now(), longBehind); err == nil {
			t.Error("systemd would hear nothing after ten minutes")
		}
		close(hangs)
		synctest.Wait()
		if err := d.behind(time.Now(), soonBehind); err != nil {
			t.Errorf("when they are evaluated again: %v", err)
		}
		if last := d.evaluated()["hot"]; last.IsZero() {
			t.Error("it is not known when they were evaluated")
		}
		cancel()
		<-done
	})
}

// A device whose sampler hangs is closed in the ledger without a new sample,
// and opens with the next one.
func TestNothingIsGrantedOnAnUnreadDevice(t *testing.T) {
	d := newPlace(t, "sim:1").open(t, t.Context())
	before, _ := d.monitor.Find("0")
	r := before
	r.State, r.Reason = gpu.Unavailable, "it was not read"
	r.Stuck = true
	d.oversight.Observe(r)
	if sum := d.ledger.Sum(r.Device.UUID); sum.Closed != "it was not read" || sum.State != gpu.Unavailable {
		t.Errorf("the ledger says %q, %s", sum.Closed, sum.State)
	}
	d.oversight.Observe(before)
	if sum := d.ledger.Sum(r.Device.UUID); sum.Closed != "" || sum.State != gpu.Optimal {
		t.Errorf("after the next sample the ledger says %q, %s", sum.Closed, sum.State)
	}
}

// A sampler that hangs is on /readyz, in the status and in the ledger.
func TestStuckSamplerIsShown(t *testing.T) {
	p := newPlace(t, "sim:1")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := p.open(t, ctx)
		free, hang := make(chan struct{}), atomic.Bool{}
		d.monitor = monitor.New(d.backends, monitor.Settings{}, monitor.Keepers{})
		d.monitor.Subscribe(monitor.Hooks{
			Event: d.publish,
			Reading: func(r monitor.Reading) {
				d.oversight.Observe(r)
				if hang.Load() && !r.Stuck {
					<-free
				}
			},
		})
		done := make(chan struct{})
		go func() { defer close(done); _ = d.monitor.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := d.ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		hang.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := d.ready(); err == nil || !strings.Contains(err.Error(), "has not read for 3s: GPU 0") {
			t.Errorf("not ready: %v", err)
		}
		r, _ := d.monitor.Find("0")
		if sum := d.ledger.Sum(r.Device.UUID); r.State != gpu.Unavailable || sum.Closed != r.Reason {
			t.Errorf("the device is %s, in the ledger %q", r.State, sum.Closed)
		}
		close(free)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r, _ = d.monitor.Find("0")
		if sum := d.ledger.Sum(r.Device.UUID); r.State != gpu.Optimal || sum.Closed != "" || d.ready() != nil {
			t.Errorf("when it goes on the device is %s, in the ledger %q; %v", r.State, sum.Closed, d.ready())
		}
		cancel()
		<-done
	})
}

func TestReadyAnswers(t *testing.T) {
	d := newPlace(t, "sim:1").open(t, t.Context())
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("/readyz answers %d: %s", w.Code, w.Body)
	}
}

func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p parts
		if left := p.wait(time.Second); left != nil {
			t.Errorf("without parts: %q", left)
		}
		free := make(chan struct{})
		p.run("quick", func() { time.Sleep(time.Second) })
		p.run("b", func() { <-free })
		p.run("a", func() { <-free })
		begun := time.Now()
		if left := p.wait(5 * time.Second); !slices.Equal(left, []string{"a", "b"}) || time.Since(begun) != 5*time.Second {
			t.Errorf("after %v these have not ended: %q", time.Since(begun), left)
		}
		close(free)
		if left := p.wait(5 * time.Second); left != nil || time.Since(begun) != 5*time.Second {
			t.Errorf("after %v these have not ended: %q", time.Since(begun), left)
		}
	})
}

// lines is where a test looks for what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// A part that hangs does not keep the daemon from ending: the journal is
// closed, and the log says which part it was.
func TestStopsAlthoughAPartHangs(t *testing.T) {
	p := newPlace(t, "sim:1")
	ctx, cancel := context.WithCancel(t.Context())
	d := p.open(t, ctx)
	var log lines
	d.log = slog.New(slog.NewTextHandler(&log, nil))
	d.patience = 10 * time.Second // enough for the parts that do not hang
	d.streams.Add(1)
	disk := make(chan struct{}) // hangs until it is closed
	runs := make(chan struct{})
	d.part("quarantine").do = func(context.Context) {
		close(runs)
		<-disk
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-runs
	cancel()
	err := <-done
	text := log.text.String()
	if !strings.Contains(text, "quarantine") || !strings.Contains(text, "streams") || !strings.Contains(text, "berth is down") {
		t.Errorf("it ended with %v and logged\n%s", err, text)
	}
	if strings.Contains(text, "ledger") {
		t.Errorf("the ledger did not end, with %v:\n%s", err, text)
	}
	close(disk)
	d.streams.Done()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	p.open(t, t.Context()) // the journal was let go
}

const hangsAtOnce = `
devices:
  - {model: h200, count: 2}
timeline:
  - {at: 0s, device: 1, hang: true}
`

// Neither a driver that hangs, nor a user database, nor callers who never say
// what they want keep a daemon from ending in an orderly way.
func TestStopsWhateverHangsOutside(t *testing.T) {
	p := newPlace(t, scenario(t, hangsAtOnce))
	ctx, cancel := context.WithCancel(t.Context())
	d := p.open(t, ctx)
	hang := make(chan struct{})
	defer close(hang)
	d.users = users.New(func(int) (string, error) { <-hang; return "", nil }, time.Hour)
	d.patience = time.Minute
	var log lines
	d.log = slog.New(slog.NewTextHandler(&log, nil))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for n := 0; n < 200; {
		c, err := net.Dial("unix", p.flags["daemon.socket"])
		if err != nil {
			runtime.Gosched() // it does not listen yet
			continue
		}
		defer c.Close()
		n++
	}
	cancel()
	if err := <-done; err != nil || strings.Contains(log.text.String(), "left behind") {
		t.Errorf("it ended with %v and logged\n%s", err, log.text.String())
	}
}
