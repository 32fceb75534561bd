package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// reportPause is the least time between two reports of counts.
	reportPause = 250 * time.Millisecond
	// reportLimit is how long the daemon may take to answer a report.
	reportLimit = 10 * time.Second
	// lastReport is how long a front that ends tries to send its last report.
	lastReport = 2 * time.Second
	// aloneLimit is how long a front stays that has no daemon, no service that is open and
	// no request.
	aloneLimit = 2 * time.Minute
	// longestPause is the longest time between two tries to reach the daemon.
	longestPause = time.Second
	// probeLimit is how long a server may take to answer a probe.
	probeLimit = 5 * time.Second
)

// obey follows the daemon's orders until ctx ends. Without a daemon it keeps the table, and
// lets the front leave that has nothing to do for long: its daemon was stopped for good.
// first gets the settings of the first line.
func (f *Front) obey(ctx context.Context, leave func(), first func(*api.FrontSettings)) {
	wait := 50 * time.Millisecond
	heard, told := time.Now(), false
	for ctx.Err() == nil {
		var why error
		connected := false
		for order, err := range f.daemon.FrontOrders(ctx, f.name) {
			if why = err; err != nil {
				break
			}
			f.obeyOne(ctx, order)
			if order.Services != nil {
				connected, wait = true, 50*time.Millisecond
				f.table.reportAll()
				first(order.Settings)
			}
		}
		if ctx.Err() != nil {
			return
		}
		if connected {
			heard, told = time.Now(), false
		}
		if time.Since(heard) >= f.alone && f.table.idle() {
			f.log.Info("the front has had no daemon for a while, and no service is open: it ends")
			leave()
		}
		if !told {
			f.log.Warn("the daemon gives no orders; open services stay open, and the front asks again", "reason", why, "connected", connected)
		}
		told = true
		when.Pause(ctx, wait)
		wait = min(2*wait, longestPause)
	}
}

// obeyOne follows one order.
func (f *Front) obeyOne(ctx context.Context, order api.FrontOrder) {
	if order.Services != nil {
		f.table.learn(order.Services, f.connect)
		f.probes.review(f.table)
	}
	if order.Service != nil {
		f.table.learnOne(*order.Service, f.connect)
		f.probes.review(f.table)
	}
	if order.Removed != "" {
		f.table.remove(order.Removed)
		f.probes.review(f.table)
	}
	if order.Probe != nil {
		f.probes.start(ctx, *order.Probe, f)
	}
	if order.Call != nil {
		go f.call(ctx, *order.Call)
	}
}

// reporter sends reports until ctx ends, and then the last one: what the daemon waits for
// at once, counts some times a second at most, and who used services every few seconds.
func (f *Front) reporter(ctx context.Context) {
	sending, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastReport, cancel) })()
	using := time.NewTicker(f.usePause)
	defer using.Stop()
	for number := uint64(1); ; {
		uses := false
		select {
		case <-ctx.Done():
		case <-f.table.urgent:
		case <-using.C:
			uses = true
		case <-f.table.wake:
			select {
			case <-ctx.Done():
			case <-f.table.urgent:
			case <-time.After(f.pause):
			}
		}
		ended := ctx.Err() != nil
		if message := f.table.collect(uses || ended); len(message.Reports) > 0 || message.Whole {
			message.Front, message.Number = f.name, number
			f.send(sending, message)
			number++
		}
		if ended {
			return
		}
	}
}

// unreadable reports whether the daemon cannot read a report, now or later. All else that
// it refuses passes, as while it learns that the user of the front is another one.
func unreadable(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}, problem.Status)
}

// send sends a report until the daemon has taken it: somebody may wait for what it says.
func (f *Front) send(ctx context.Context, message api.FrontReports) {
	if message.Reports == nil {
		message.Reports = []api.FrontReport{}
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, longestPause) {
		limited, cancel := context.WithTimeout(ctx, reportLimit)
		err := f.daemon.FrontReport(limited, message)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		if unreadable(err) {
			f.log.Error("the daemon refuses a report", "reason", err)
			return
		}
		when.Pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
	}
}

// client returns an HTTP client for a server, without a memory of connections.
func (s *server) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headerLimit,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask makes a call to a server and returns its error, or that of its answer.
func (s *server) ask(ctx context.Context, c api.FrontHTTPCall) error {
	r, err := http.NewRequestWithContext(ctx, c.Method, "http://127.0.0.1:"+strconv.Itoa(s.port)+c.Path, strings.NewReader(c.Body))
	if err != nil {
		return err
	}
	if c.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 256))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s %s: the server answered %s: %q", c.Method, c.Path, resp.Status, text)
	}
	return err
}

// call makes the calls of an order and reports how they went.
func (f *Front) call(ctx context.Context, order api.FrontCall) {
	ctx, cancel := context.WithTimeout(ctx, seconds(order.Timeout, time.Minute))
	defer cancel()
	outcome := &api.FrontOutcome{FrontEpoch: order.FrontEpoch, ID: order.ID, OK: true}
	to := &server{port: order.Port, uid: order.UID, owner: f.owner}
	for _, c := range order.Calls {
		if err := to.ask(ctx, c); err != nil {
			outcome.OK, outcome.Error = false, short(err)
			break
		}
	}
	f.table.report(api.FrontReport{Called: outcome})
}

// probe asks a server until it is ready, and reports that it is, or that it was not in
// time. It reports nothing if it is cancelled.
func (f *Front) probe(ctx context.Context, order api.FrontProbe) {
	limited, cancel := context.WithTimeout(ctx, seconds(order.Timeout, startTimeout))
	defer cancel()
	to := &server{port: order.Port, uid: order.UID, owner: f.owner}
	outcome := &api.FrontOutcome{FrontEpoch: order.FrontEpoch}
	for wait := 20 * time.Millisecond; ; wait = min(wait*5/4, 250*time.Millisecond) {
		err := to.ready(limited, order.Ready)
		if err == nil {
			outcome.OK, outcome.Error = true, ""
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || outcome.Error == "" {
			outcome.Error = short(err)
		}
		when.Pause(limited, wait)
		if limited.Err() != nil {
			break
		}
	}
	if ctx.Err() == nil {
		f.table.report(api.FrontReport{Probed: outcome})
	}
}

// ready returns nil if the server is ready.
func (s *server) ready(ctx context.Context, how api.FrontReady) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if how.Path != "" {
		return s.ask(ctx, api.FrontHTTPCall{Method: http.MethodGet, Path: how.Path})
	}
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	return c.Close()
}

// seconds returns a time from an order.
func seconds(s float64, otherwise time.Duration) time.Duration {
	if s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	return otherwise
}

// short returns the beginning of an error for a report.
func short(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), 1<<10)], "")
}

// probes are the probes under way, by service. Only the goroutine that obeys uses them.
type probes map[string]probing

type probing struct {
	epoch  uint64
	cancel context.CancelFunc
}

// start begins a probe, instead of an older one of the same service.
func (p probes) start(ctx context.Context, order api.FrontProbe, f *Front) {
	if old, is := p[order.Service]; is {
		old.cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	p[order.Service] = probing{order.Epoch, cancel}
	go f.probe(ctx, order)
}

// review cancels the probes of services that do not start any more.
func (p probes) review(t *table) {
	for name, now := range p {
		told, is := t.find(name)
		if is && told.Epoch == now.epoch && (told.State == "starting" || told.State == "returning") {
			continue
		}
		now.cancel()
		delete(p, name)
	}
}
