package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

// restarts is a way to a daemon that goes away. It answers each request with the next of
// its answers, and then with the last one.
type restarts struct {
	answers []any // an error, an api.Problem, or what the daemon answers
	asked   []string
	bodies  []api.LeaseRequest

	released []string // paths
}

func (r *restarts) RoundTrip(req *http.Request) (*http.Response, error) {
	var body api.LeaseRequest
	if req.Method == http.MethodDelete {
		r.released = append(r.released, req.URL.Path)
		return respond(http.StatusOK, "application/json", api.Ended{}), nil
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, err
	}
	answer := r.answers[min(len(r.asked), len(r.answers)-1)]
	r.asked, r.bodies = append(r.asked, req.URL.RequestURI()), append(r.bodies, body)
	if err, is := answer.(error); is {
		if problem, is := answer.(*api.Problem); is {
			return respond(problem.Status, "application/problem+json", problem), nil
		}
		return nil, err
	}
	return respond(http.StatusCreated, "application/json", answer), nil
}

func respond(status int, kind string, body any) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	text, _ := json.Marshal(body)
	_, _ = io.Copy(w, bytes.NewReader(text))
	return w.Result()
}

// A request that waits is made again when the daemon goes away: under the same id, marked
// as repeated, with the rest of its timeout, and for a minute.
func TestAskingAgain(t *testing.T) {
	gone := &NoDaemonError{Attempts: []Attempt{{"unix", "/run/berth.sock", syscall.ECONNREFUSED}}}
	closed := &NoDaemonError{Attempts: []Attempt{{"unix", "/run/berth.sock", syscall.EACCES}}}
	stopping := &api.Problem{Status: http.StatusServiceUnavailable, Code: "stopping"}
	noTurn := &api.Problem{Status: http.StatusTooManyRequests, Code: "no_turn"}
	duplicate := &api.Problem{Status: http.StatusConflict, Code: "duplicate_allocation"}
	granted := api.Lease{ID: "a", Fence: 7}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	missing := func(err error) bool { found := (*NoDaemonError)(nil); return errors.As(err, &found) }
	away := func(err error) bool { found := (*AwayError)(nil); return errors.As(err, &found) && missing(err) }
	refused := func(err error) bool {
		found := (*api.Problem)(nil)
		return errors.As(err, &found) && found.Code == "duplicate_allocation"
	}
	for name, test := range map[string]struct {
		answers []any
		want    func(error) bool // nil: it is granted
		asked   int              // -1: often
	}{
		"granted":            {[]any{granted}, nil, 1},
		"killed":             {[]any{io.EOF, gone, gone, granted}, nil, 4},
		"reset":              {[]any{syscall.ECONNRESET, granted}, nil, 2},
		"stopped":            {[]any{stopping, stopping, gone, granted}, nil, 4},
		"had no turn":        {[]any{noTurn, gone, noTurn, granted}, nil, 4},
		"twice":              {[]any{io.EOF, gone, stopping, gone, granted}, nil, 5},
		"never there":        {[]any{gone}, missing, 1},
		"away for good":      {[]any{io.EOF, gone}, away, -1},
		"refused":            {[]any{io.EOF, duplicate}, refused, 2},
		"not for this user":  {[]any{io.EOF, closed}, is(syscall.EACCES), 2},
		"refused at first":   {[]any{duplicate}, refused, 1},
		"it cannot be asked": {[]any{io.ErrClosedPipe}, is(io.ErrClosedPipe), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way, began, retries := &restarts{answers: test.answers}, time.Now(), 0
				c, err := New(Options{Transport: way, Timeout: 10 * time.Second, Retry: func(error, time.Duration) { retries++ }})
				if err != nil {
					t.Fatal(err)
				}
				l, err := c.Acquire(t.Context(), api.LeaseRequest{Memory: 5, Timeout: gpu.Some(1000.0)})
				switch {
				case test.want == nil && (err != nil || l.Fence != 7):
					t.Errorf("got %+v, %v", l, err)
				case test.want != nil && (err == nil || !test.want(err)):
					t.Errorf("refused with %v", err)
				}
				if n := len(way.asked); test.asked > 0 && n != test.asked || retries != n-1 {
					t.Errorf("asked %d times and told %d times, want %d", n, retries, test.asked)
				}
				if took := time.Since(began); test.asked < 0 && (took < awayLimit || took > awayLimit+2*longestPause) {
					t.Errorf("gave up after %s", took)
				}
				for i, asked := range way.asked {
					want, b := "/api/leases?repeated=true", way.bodies[i]
					if i == 0 {
						want = "/api/leases"
					}
					if asked != want || b.ID == "" || b.ID != way.bodies[0].ID || b.Memory != 5 || i > 0 && !(b.Timeout.Or(0) < way.bodies[i-1].Timeout.Or(0)) {
						t.Errorf("asked %s with %+v", asked, b)
					}
				}
			})
		})
	}
}

// While too many connections are open, a request that waits is made again until its timeout
// is over, without one for longer than a daemon may be away, and says so after a second.
func TestAskingAgainForAConnection(t *testing.T) {
	full := &api.Problem{Status: http.StatusServiceUnavailable, Code: "too_many_connections"}
	granted := api.Lease{ID: "a", Fence: 7}
	for name, test := range map[string]struct {
		timeout  gpu.Opt[float64]
		refusals int // before it is granted
		asked    int
		told     int
		granted  bool
	}{
		"soon":         {gpu.Opt[float64]{}, 4, 5, 0, true}, // within 750 ms
		"late":         {gpu.Opt[float64]{}, 200, 201, 195, true},
		"too late":     {gpu.Some(10.0), 200, 15, 9, false},
		"without time": {gpu.Some(0.0), 200, 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way, told := &restarts{}, 0
				for range test.refusals {
					way.answers = append(way.answers, full)
				}
				way.answers = append(way.answers, granted)
				c, err := New(Options{Transport: way, Retry: func(why error, _ time.Duration) {
					if told++; !turnedAway(why) || errors.As(why, new(*AwayError)) {
						t.Errorf("told %v", why)
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				l, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a", Timeout: test.timeout})
				if (err == nil) != test.granted || err == nil && l.Fence != 7 || err != nil && !turnedAway(err) {
					t.Errorf("got %+v, %v", l, err)
				}
				if slices.Contains(way.asked, "/api/leases?repeated=true") {
					t.Error("the daemon has read nothing, and is asked as if it had")
				}
				if len(way.asked) != test.asked || told != test.told {
					t.Errorf("asked %d times and told %d times, want %d and %d", len(way.asked), told, test.asked, test.told)
				}
			})
		})
	}
}

// A request whose first answer was lost may have been granted, whatever refuses the next
// ones: its caller is told so, and Hold gives the lease back. What the daemon has never read
// was not granted.
func TestWhatMayHaveBeenGranted(t *testing.T) {
	full := &api.Problem{Status: http.StatusServiceUnavailable, Code: "too_many_connections"}
	stopping := &api.Problem{Status: http.StatusServiceUnavailable, Code: "stopping"}
	for name, test := range map[string]struct {
		answers []any
		leaves  time.Duration // when the caller leaves
		granted bool          // perhaps
	}{
		"full afterwards":     {[]any{io.EOF, full}, time.Hour, true},
		"stopping afterwards": {[]any{io.EOF, stopping}, time.Hour, true},
		"the caller leaves":   {[]any{io.EOF, full}, time.Second, true},
		"full":                {[]any{full}, time.Hour, false},
		"refused afterwards":  {[]any{io.EOF, &api.Problem{Status: http.StatusConflict, Code: "insufficient_memory"}}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way := &restarts{answers: test.answers}
				c, err := New(Options{Transport: way})
				if err != nil {
					t.Fatal(err)
				}
				ctx, leave := context.WithTimeout(t.Context(), test.leaves)
				defer leave()
				_, err = c.Hold(ctx, api.LeaseRequest{Timeout: gpu.Some(3.0)})
				if away := errors.As(err, new(*AwayError)); err == nil || ctx.Err() == nil && away != test.granted {
					t.Errorf("refused with %v", err)
				}
				for i, asked := range way.asked {
					if repeated := i > 0 && test.answers[0] == io.EOF; strings.HasSuffix(asked, "?repeated=true") != repeated {
						t.Errorf("the request %d is %s", i, asked)
					}
				}
				if (len(way.released) == 1) != test.granted {
					t.Errorf("released %q", way.released)
				}
			})
		})
	}
}

// A run of a plan that waits keeps its id, and with it its place. Without an id, another
// request would be for other leases.
func TestAskingAgainForARun(t *testing.T) {
	for id, want := range map[string][]string{
		"well-1": {"/api/plans/run well-1", "/api/plans/run?repeated=true well-1", "/api/plans/run?repeated=true well-1"},
		"":       {"/api/plans/run "},
	} {
		synctest.Test(t, func(t *testing.T) {
			way := &restarts{answers: []any{io.EOF, &NoDaemonError{}, api.PlanRunning{}}}
			c, err := New(Options{Transport: way})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.RunPlan(t.Context(), api.PlanRun{ID: id, Timeout: gpu.Some(1000.0)})
			var asked []string
			for i := range way.asked {
				asked = append(asked, way.asked[i]+" "+way.bodies[i].ID)
			}
			if (err != nil) != (id == "") || !slices.Equal(asked, want) {
				t.Errorf("asked %q: %v", asked, err)
			}
		})
	}
}

// Whoever leaves while the daemon is away does not ask again.
func TestLeavingWhileTheDaemonIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &restarts{answers: []any{io.EOF, &NoDaemonError{}}}
		c, err := New(Options{Transport: way})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		if _, err := c.Allocate(ctx, api.Allocate{ID: "a", Memory: 5, Wait: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		n := len(way.asked)
		time.Sleep(time.Minute)
		if len(way.asked) != n || way.asked[n-1] != "/api/gpu/memory/allocate?repeated=true" {
			t.Errorf("asked %v", way.asked)
		}
	})
}

// A call is made again while a daemon is being replaced, for as long as the client has
// patience, and at once fails where there never was one.
func TestEndure(t *testing.T) {
	folder := t.TempDir()
	gone, never := filepath.Join(folder, "gone"), filepath.Join(folder, "never")
	if err := file.LeaveTrace(gone, folder); err != nil {
		t.Fatal(err)
	}
	missing := func(network, address string, cause error) error {
		return &NoDaemonError{Attempts: []Attempt{{"unix", never, fs.ErrNotExist}, {network, address, cause}}}
	}
	refused := missing("unix", gone, syscall.ECONNREFUSED)
	full := &api.Problem{Status: http.StatusServiceUnavailable, Code: "too_many_connections"}
	for name, c := range map[string]struct {
		err      error
		failures int // calls that fail, before one does not
		tries    int
		failed   bool
	}{
		"it was killed":           {refused, 5, 6, false},
		"it is being replaced":    {missing("unix", gone, fs.ErrNotExist), 5, 6, false},
		"it does not come back":   {refused, 1000, 15, true},
		"it is full":              {full, 5, 6, false},
		"it stays full":           {full, 1000, 15, true},
		"nothing was sent":        {&unsentError{syscall.EPIPE}, 5, 6, false},
		"it refuses":              {&api.Problem{Status: http.StatusServiceUnavailable, Code: "not_ready"}, 1, 1, true},
		"there never was one":     {missing("unix", never, fs.ErrNotExist), 1, 1, true},
		"it is not for this user": {missing("unix", gone, fs.ErrPermission), 1, 1, true},
		"on another machine":      {missing("tcp", "h:1", syscall.ECONNREFUSED), 1, 1, true},
		"another failure":         {io.ErrUnexpectedEOF, 1, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, told := 0, 0
				daemon := &Client{patience: 10 * time.Second, retry: func(error, time.Duration) { told++ }}
				err := daemon.endure(t.Context(), false, func() error {
					if tries++; tries <= c.failures {
						return c.err
					}
					return nil
				})
				if tries != c.tries || (err != nil) != c.failed {
					t.Errorf("%d tries, error %v", tries, err)
				}
				if (told > 0) != (tries > 6) { // a second or more
					t.Errorf("told %d times", told)
				}
			})
		})
	}
	if replaced(missing("unix", gone, fs.ErrNotExist), file.TracedSince(gone).Add(2*replacedWithin)) {
		t.Error("a daemon that went long ago is still being replaced")
	}
	t.Run("without patience", func(t *testing.T) {
		tries := 0
		if err := new(Client).endure(t.Context(), false, func() error { tries++; return refused }); tries != 1 || err == nil {
			t.Errorf("%d tries, error %v", tries, err)
		}
	})
}

// A log that breaks off is not asked for again: what came of it stands in the writer. One of
// which nothing has come is.
func TestLogThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		way := roundTrip(func(*http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				return nil, io.EOF
			}
			broken := io.MultiReader(strings.NewReader("epoch 1\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(broken)}, nil
		})
		c, err := New(Options{Transport: way, Patience: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		if err := c.JobLog(t.Context(), "job-7", LogQuery{Follow: true}, &log); !errors.Is(err, io.ErrUnexpectedEOF) || log.String() != "epoch 1\n" || asked != 2 {
			t.Errorf("asked %d times, %q, error %v", asked, log.String(), err)
		}
	})
}

// A question whose answer was cut off is asked again, for the daemon was killed meanwhile.
// What changes something is not: it may be done.
func TestQuestionThatIsCutOff(t *testing.T) {
	ping := func(ctx context.Context, c *Client) error { return c.Ping(ctx) }
	cancel := func(ctx context.Context, c *Client) error { _, err := c.CancelJob(ctx, "job-7", ""); return err }
	for name, test := range map[string]struct {
		patience time.Duration
		call     func(context.Context, *Client) error
		asked    int
	}{
		"a question":       {10 * time.Second, ping, 2},
		"without patience": {0, ping, 1},
		"it may be done":   {10 * time.Second, cancel, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				way := roundTrip(func(*http.Request) (*http.Response, error) {
					if asked++; asked == 1 {
						return nil, io.EOF
					}
					return respond(http.StatusOK, "application/json", struct{}{}), nil
				})
				c, err := New(Options{Transport: way, Patience: test.patience})
				if err != nil {
					t.Fatal(err)
				}
				if err := test.call(t.Context(), c); (err != nil) != (test.asked == 1) || asked != test.asked {
					t.Errorf("asked %d times, error %v", asked, err)
				}
			})
		})
	}
}
