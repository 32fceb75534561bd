package front

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/process"
)

// closing is the order to close a service.
func closing(s api.FrontService) api.FrontOrder {
	s.State = "closing"
	return api.FrontOrder{Service: &s}
}

// stream begins a request whose answer goes on.
func (f *testFront) stream(t *testing.T, path string) (*http.Response, *bufio.Reader, context.CancelFunc) {
	t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, "GET", f.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp, bufio.NewReader(resp.Body), leave
}

func TestPiecesOfAStreamComeAtOnce(t *testing.T) {
	s := startServer(t)
	f := startFront(t, newDaemon(t, ready("chat", s, 1)))
	resp, pieces, leave := f.stream(t, "/services/chat/v1/stream?n=3&stay=1")
	for i := range 3 {
		if line, err := pieces.ReadString('\n'); err != nil || line != fmt.Sprintf("data: {\"i\":%d}\n", i) {
			t.Fatal(line, err)
		}
		_, _ = pieces.ReadString('\n')
	}
	if resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Error(resp.Header)
	}
	if event := s.next(t); event != "streaming" {
		t.Fatal(event)
	}
	leave()
	if event := s.next(t); event != "left" {
		t.Fatal(event)
	}
}

func TestCounts(t *testing.T) {
	d := newDaemon(t, ready("chat", startServer(t), 1), ready("away", startServer(t), 1))
	f := startFront(t, d)
	f.echoed(t, "POST", "/v1/chat/completions", `{"model":"chat"}`)
	f.do(t, "GET", "/services/chat/v1/stream?n=100", "")
	f.do(t, "GET", "/services/chat/broken", "")
	var sum api.FrontCounted
	var answers uint64
	until(t, d, func(r api.FrontReport) (bool, bool) {
		if r.Counted == nil {
			return false, false
		}
		if r.Counted.Service == "chat" {
			sum = api.FrontCounted{}
			answers = 0
		}
		for _, r := range d.reports {
			if r.Counted == nil || r.Counted.Service != "chat" {
				continue
			}
			sum.Requests += r.Counted.Requests
			sum.Failed += r.Counted.Failed
			sum.TokensIn += r.Counted.TokensIn
			sum.TokensOut += r.Counted.TokensOut
			for _, n := range r.Counted.FirstByte {
				answers += n
			}
		}
		return true, sum.Requests == 3
	})
	if sum.Failed != 1 || sum.TokensIn != 10 || sum.TokensOut != 16 || answers != 3 {
		t.Errorf("%+v, %d answers", sum, answers)
	}
	if last := until(t, d, isOpen("chat", 0, 0)); last.LastAnswer.IsZero() && last.Epoch != 1 {
		t.Errorf("%+v", last)
	}
}

// That a service has no request any more, the daemon hears at once.
func TestTheLastRequestIsReportedAtOnce(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, ready("chat", s, 1))
	f := startFront(t, d, func(f *Front) { f.pause = time.Hour })
	_, pieces, leave := f.stream(t, "/services/chat/v1/stream?n=1&stay=1")
	if _, err := pieces.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	d.stop()
	d.forget()
	d.start() // the next daemon hears everything
	until(t, d, isOpen("chat", 1, 0))
	leave()
	until(t, d, isOpen("chat", 0, 0))
}

// After the report that an epoch is closed nothing begins under it.
func TestCloseWaitsForOpenRequests(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, ready("chat", s, 4))
	asked := make(chan bool, 1)
	d.bring = func(context.Context, api.FrontBring) (api.FrontBrought, *api.Problem) {
		asked <- true
		return api.FrontBrought{Epoch: 5, Port: s.port, UID: os.Getuid()}, nil
	}
	f := startFront(t, d)
	_, pieces, leave := f.stream(t, "/services/chat/v1/stream?n=1&stay=1")
	if _, err := pieces.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	until(t, d, isOpen("chat", 1, 0))
	d.order(closing(ready("chat", s, 4)))
	for f.table.current("chat") != nil { // the order has not arrived yet
		time.Sleep(time.Millisecond)
	}
	// The next request has the service brought, and comes under the next epoch.
	if got := f.echoed(t, "GET", "/services/chat/x", ""); got.URI != "/x" {
		t.Error(got)
	}
	<-asked
	d.mu.Lock()
	for _, r := range d.reports {
		if r.Closed != nil {
			t.Error("it was closed while a request was open")
		}
	}
	d.mu.Unlock()
	leave()
	until(t, d, isClosed("chat", 4))
	// What was never open is closed at once, and so is what a table says is closing.
	d.order(closing(api.FrontService{Name: "unknown", Epoch: 9}))
	until(t, d, isClosed("unknown", 9))
	d.order(closing(ready("chat", s, 5)))
	until(t, d, isClosed("chat", 5))
	// A closed epoch never opens again.
	again := ready("chat", s, 5)
	d.order(api.FrontOrder{Service: &again})
	d.order(closing(api.FrontService{Name: "unknown", Epoch: 10}))
	until(t, d, isClosed("unknown", 10))
	if f.table.current("chat") != nil {
		t.Error("a closed epoch is open again")
	}
}

func TestRequestsWaitTogetherForAServiceThatComes(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, api.FrontService{Name: "chat", State: "away", MaxOpen: 3, Users: []string{"me"}})
	come, asked := make(chan bool), make(chan api.FrontBring, 10)
	d.bring = func(ctx context.Context, b api.FrontBring) (api.FrontBrought, *api.Problem) {
		asked <- b
		<-come
		return api.FrontBrought{Epoch: 1, Port: s.port, UID: os.Getuid()}, nil
	}
	f := startFront(t, d)
	answers := make(chan string, 3)
	for range 3 {
		go func() {
			resp, _, err := f.try("POST", "/v1/chat/completions", strings.NewReader(`{"model":"chat"}`))
			if err != nil {
				answers <- err.Error()
				return
			}
			answers <- resp.Status
		}()
	}
	until(t, d, isOpen("chat", 0, 3))
	if resp, text := f.do(t, "POST", "/v1/chat/completions", `{"model":"chat"}`); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "max_open") {
		t.Error(resp.Status, text)
	}
	close(come)
	for range 3 {
		if got := <-answers; got != "200 OK" {
			t.Error(got)
		}
	}
	if b := <-asked; b.User != "me" || b.Service != "chat" || b.Front != f.name {
		t.Errorf("%+v", b)
	}
	if len(asked) != 0 {
		t.Error("the daemon was asked more than once for one user")
	}
}

// answers is a daemon that answers each question for a service when it is told to.
type answers struct {
	mu     sync.Mutex
	asked  []api.FrontBring
	answer chan bool
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	var b api.FrontBring
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.asked = append(a.asked, b)
	a.mu.Unlock()
	select {
	case <-a.answer:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	if b.Waited > 0 {
		problems.Write(w, problems.New(503, "start_timeout", "It waits for ada."))
	} else {
		respond(w, api.FrontBrought{Epoch: 1}, nil)
	}
	return w.Result(), nil
}

// However many users wait for services, the daemon has a bounded number of questions, so
// that it hears the reports of the front, and each service that somebody waits for comes.
func TestManyUsersWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &answers{answer: make(chan bool)}
		c, err := client.New(client.Options{Transport: d})
		if err != nil {
			t.Fatal(err)
		}
		f := newFront(Options{Log: slog.New(slog.DiscardHandler), Daemon: c}, peercred.New(process.Proc()))
		f.table.learn([]api.FrontService{{Name: "chat", State: "away"}, {Name: "other", State: "away"}, {Name: "late", State: "away", Timeout: 60}}, f.connect)
		var all sync.WaitGroup
		wait := func(name, user string, users int, code string) {
			for i := range users {
				all.Go(func() {
					if _, refused := f.enter(t.Context(), name, fmt.Sprint(user, i), func() {}); code != "" && (refused == nil || refused.Code != code || !strings.Contains(refused.Message, "ada")) || code == "" && refused != nil {
						t.Errorf("%s%d, %s: %v", user, i, name, refused)
					}
				})
			}
			synctest.Wait()
		}
		wait("chat", "u", mostBringing, "")
		wait("chat", "v", 50, "")
		wait("other", "v", 50, "")
		wait("late", "v", 50, "start_timeout")
		asked := func() []api.FrontBring {
			d.mu.Lock()
			defer d.mu.Unlock()
			return slices.Clone(d.asked)
		}
		together := asked()
		if n := len(together); n != mostBringing+3 {
			t.Errorf("the daemon was asked %d times at once, want %d", n, mostBringing+3)
		}
		for i, name := range []string{"chat", "other", "late"} {
			if b := together[len(together)-3+i]; b.Service != name || b.User != "" {
				t.Errorf("%+v, want all who wait for %s", b, name)
			}
		}
		time.Sleep(time.Minute) // the start_timeout of one
		synctest.Wait()
		if late := asked(); len(late) != mostBringing+4 || late[len(late)-1].Waited != 60 {
			t.Errorf("the daemon was asked %d times why a service did not come", len(late)-mostBringing-3)
		}
		close(d.answer)
		all.Wait()
		if f.table.bringing != 0 {
			t.Errorf("%d questions are left", f.table.bringing)
		}
	})
}

// The answer to a question for a service comes after the order that its stay is over: it
// does not open the stay.
func TestABroughtServiceThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &answers{answer: make(chan bool)}
		c, err := client.New(client.Options{Transport: d})
		if err != nil {
			t.Fatal(err)
		}
		f := newFront(Options{Log: slog.New(slog.DiscardHandler), Daemon: c}, peercred.New(process.Proc()))
		f.table.learnOne(api.FrontService{Name: "chat", State: "away", Timeout: 60}, f.connect)
		ctx, leave := context.WithCancel(t.Context())
		over := make(chan bool)
		go func() {
			defer close(over)
			_, _ = f.enter(ctx, "chat", "ada", func() {})
		}()
		synctest.Wait()
		f.table.learnOne(api.FrontService{Name: "chat", State: "failed", Epoch: 1, Timeout: 60}, f.connect)
		d.answer <- true
		synctest.Wait()
		if st := f.table.current("chat"); st != nil {
			t.Errorf("the epoch %d is open", st.epoch)
		}
		leave()
		<-over
	})
}

// Strangers do not take the places of those whom the front knows.
func TestStrangersAreForgottenFirst(t *testing.T) {
	c, now := newCallers(nil), time.Now()
	c.remember("ada", known{caller: api.FrontCaller{User: "ada"}, at: now.Add(-time.Hour)})
	for i := range 2 * mostCallers {
		c.remember(strconv.Itoa(i), known{err: errNoToken, at: now.Add(time.Duration(i) * time.Second)})
	}
	if _, known := c.known["ada"]; !known || len(c.known) > mostCallers {
		t.Errorf("of %d callers, one who was known is gone", len(c.known))
	}
}

// Whoever takes all that one user may have leaves the other half to others.
func TestOneUserHasHalf(t *testing.T) {
	f := newFront(Options{Log: slog.New(slog.DiscardHandler)}, peercred.New(process.Proc()))
	put := func(most int, users ...string) *service {
		name := fmt.Sprint("s", most, users)
		f.table.learn([]api.FrontService{{Name: name, State: "ready", Epoch: 1, MaxOpen: most, Users: users}}, f.connect)
		return f.table.services[name]
	}
	for _, c := range []struct {
		most  int
		users []string
		want  map[string]int
	}{{1, nil, map[string]int{"eve": 1, "ada": 0}}, {4, nil, map[string]int{"eve": 2, "ada": 2}}, {5, nil, map[string]int{"eve": 3, "ada": 2}}, {4, []string{"eve"}, map[string]int{"eve": 4}}} {
		s := put(c.most, c.users...)
		for _, user := range []string{"eve", "ada"} {
			in := 0
			for range 10 {
				if _, refused := f.enter(t.Context(), s.told.Name, user, func() {}); refused == nil {
					in++
				} else if refused.Status != 429 || refused.Retry == 0 {
					t.Error(refused)
				}
			}
			if in != c.want[user] {
				t.Errorf("max_open %d, users %q: %s has %d, want %d", c.most, c.users, user, in, c.want[user])
			}
		}
	}
}

// However many others call, each has half, and is told of its own requests.
func TestOneOfManyUsersHasHalf(t *testing.T) {
	f := newFront(Options{Log: slog.New(slog.DiscardHandler)}, peercred.New(process.Proc()))
	f.table.learn([]api.FrontService{{Name: "chat", State: "ready", Epoch: 1, MaxOpen: 100}}, f.connect)
	for i := range 30 {
		if _, refused := f.enter(t.Context(), "chat", fmt.Sprint("u", i), func() {}); refused != nil {
			t.Fatal(refused)
		}
	}
	in := 0
	for range 100 {
		if _, refused := f.enter(t.Context(), "chat", "eve", func() {}); refused == nil {
			in++
		}
	}
	if _, refused := f.enter(t.Context(), "chat", "ada", func() {}); in != 50 || refused != nil {
		t.Errorf("eve has %d, and ada is answered with %v", in, refused)
	}
}

func TestNobodyWaitsAnyMore(t *testing.T) {
	for _, size := range []int{0, 100, 1 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) { testNobodyWaits(t, strings.NewReader(strings.Repeat("x", size))) })
	}
}

func testNobodyWaits(t *testing.T, body io.Reader) {
	d := newDaemon(t, api.FrontService{Name: "chat", State: "away"})
	asked, cancelled := make(chan bool), make(chan bool)
	d.bring = func(ctx context.Context, b api.FrontBring) (api.FrontBrought, *api.Problem) {
		close(asked)
		<-ctx.Done()
		close(cancelled)
		return api.FrontBrought{}, nil
	}
	f := startFront(t, d)
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", f.url+"/services/chat/", body)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		_, err := http.DefaultClient.Do(r)
		done <- err != nil
	}()
	<-asked
	leave()
	<-cancelled
	<-done
	until(t, d, isOpen("chat", 0, 0))
	f.stop()
	f.done <- <-f.done // it has sent its last report
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.reports {
		if r.Counted != nil {
			t.Errorf("it is counted: %+v", r.Counted)
		}
	}
}

// The body of a request that waits comes whole, wherever it was kept meanwhile, and if
// nowhere.
func TestBodiesWaitForTheirService(t *testing.T) {
	s := startServer(t)
	for name, room := range map[string]struct {
		size        int
		memory, all int64
	}{
		"memory": {60 << 10, 1 << 20, 1 << 30}, "disk": {1 << 20, 1 << 20, 1 << 30}, "no memory": {60 << 10, 0, 1 << 30},
		"no room": {60 << 10, 0, 0}, "no room for the end": {1 << 20, 1 << 20, 1 << 20}, "too long": {12 << 20, 1 << 20, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, api.FrontService{Name: "chat", State: "away"})
			f := startFront(t, d, func(f *Front) { f.memory.all, f.spool.all = room.memory, room.all })
			text := strings.Repeat("0123456789abcdef", room.size/16)
			sender, body := io.Pipe()
			d.bring = func(context.Context, api.FrontBring) (api.FrontBrought, *api.Problem) {
				_, _ = io.WriteString(body, text[:room.size/2])
				return api.FrontBrought{Epoch: 1, Port: s.port, UID: os.Getuid()}, nil
			}
			go func() {
				for f.table.current("chat") == nil {
					runtime.Gosched()
				}
				_, _ = io.WriteString(body, text[room.size/2:])
				_ = body.Close()
			}()
			_, answer, err := f.try("POST", "/services/chat/x", sender)
			var got echo
			if err != nil || json.Unmarshal([]byte(answer), &got) != nil || got.Size != len(text) || got.Body != text[:min(len(text), 1<<16)] {
				t.Errorf("%v, %d bytes, %.200s", err, got.Size, answer)
			}
			for f.room() != 0 { // the handler ends a moment after its answer
				runtime.Gosched()
			}
		})
	}
}

// clocked is a connection whose reads take a time.
type clocked struct {
	*recorder
	limit time.Time
	takes time.Duration
}

func (c *clocked) SetReadDeadline(t time.Time) error { c.limit = t; return nil }

func (c *clocked) Read(b []byte) (int, error) {
	time.Sleep(c.takes)
	if time.Now().After(c.limit) {
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

// A caller has as long as the front waits for it, and not as long as a service takes.
func TestTheTimeOfACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ takes, between time.Duration }{{0, time.Hour}, {time.Second, time.Hour}, {3 * time.Second, 0}} {
			slow := &clocked{recorder: newRecorder(), takes: c.takes}
			r, err := http.NewRequest("POST", "/", slow)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = -1
			body, err := newPaced(slow, r, 30*time.Second), error(nil)
			for range 100 {
				time.Sleep(c.between)
				if _, err = body.Read(make([]byte, bodyRate)); err != nil {
					break
				}
			}
			if late := c.takes > 2*time.Second; late != errors.Is(err, os.ErrDeadlineExceeded) || !late && err != nil {
				t.Errorf("%v a second's worth, %v between: %v", c.takes, c.between, err)
			}
		}
	})
}

// The daemon is asked for a service while what was counted of it is reported; the race
// detector looks on.
func TestAServiceIsCountedWhileItIsBrought(t *testing.T) {
	f := startFront(t, newDaemon(t, api.FrontService{Name: "chat", State: "away"}))
	gone, leave := context.WithCancel(context.Background())
	leave()
	for range 100 {
		f.table.mu.Lock()
		_ = f.await(gone, f.table.services["chat"], "me")
		f.table.mu.Unlock()
		f.table.count("chat", func(c *api.FrontCounted) { c.Requests++ })
		f.table.collect(false)
	}
}

func TestStartTimeout(t *testing.T) {
	d := newDaemon(t, api.FrontService{Name: "chat", State: "starting", Timeout: 0.05})
	var mu sync.Mutex
	var why *api.Problem
	d.bring = func(ctx context.Context, b api.FrontBring) (api.FrontBrought, *api.Problem) {
		if b.Waited == 0 {
			<-ctx.Done()
			return api.FrontBrought{}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if b.Waited != 0.05 || b.Service != "chat" || b.User != "me" {
			t.Errorf("the daemon is asked why with %+v", b)
		}
		return api.FrontBrought{}, why
	}
	f := startFront(t, d)
	// An older daemon does not say why.
	for _, problem := range []*api.Problem{nil, problems.New(422, "invalid_request", "There is no waited_seconds.")} {
		mu.Lock()
		why = problem
		mu.Unlock()
		if resp, text := f.do(t, "GET", "/services/chat/", ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "within its start_timeout of 0.1 s; it is starting now") {
			t.Error(resp.Status, text)
		}
	}
	mu.Lock()
	why = problems.New(503, "start_timeout", "It waits: train of ada holds 70 GiB.")
	mu.Unlock()
	if resp, text := f.do(t, "POST", "/v1/chat/completions", `{"model":"chat"}`); resp.StatusCode != 503 || !strings.Contains(text, `"error":`) || !strings.Contains(text, "train of ada holds 70 GiB") {
		t.Error(resp.Status, text)
	}
}

func TestTheDaemonsReasonReachesTheCaller(t *testing.T) {
	d := newDaemon(t, api.FrontService{Name: "chat", State: "away"})
	d.bring = func(ctx context.Context, b api.FrontBring) (api.FrontBrought, *api.Problem) {
		return api.FrontBrought{}, &api.Problem{Status: 503, Code: "never_fits", Detail: "It needs 80 GiB.", Extra: map[string]any{"retry_after_seconds": 2.5}}
	}
	f := startFront(t, d)
	if resp, text := f.do(t, "GET", "/services/chat/", ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "3" || !strings.Contains(text, "It needs 80 GiB.") || !strings.Contains(text, "never_fits") {
		t.Error(resp.Status, text)
	}
}

// Without a daemon, what is open stays open, and streams go on.
func TestTheDaemonDies(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, ready("chat", s, 1), api.FrontService{Name: "away", State: "away"})
	f := startFront(t, d)
	_, pieces, leave := f.stream(t, "/services/chat/v1/stream?n=1&stay=1")
	if _, err := pieces.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	until(t, d, isOpen("chat", 1, 0))
	d.stop()
	if got := f.echoed(t, "POST", "/v1/chat/completions", `{"model":"chat"}`); got.URI != "/v1/chat/completions" {
		t.Error(got)
	}
	// A request for what is away waits for the daemon.
	answer := make(chan string, 1)
	go func() {
		resp, text, err := f.try("GET", "/services/away/x", nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- resp.Status + text
	}()
	d.forget()
	d.mu.Lock()
	d.table[0].State = "closing" // the next daemon goes on where the last one was
	d.bring = func(ctx context.Context, b api.FrontBring) (api.FrontBrought, *api.Problem) {
		return api.FrontBrought{Epoch: 7, Port: s.port, UID: os.Getuid()}, nil
	}
	d.mu.Unlock()
	d.start()
	until(t, d, isOpen("chat", 1, 0))
	if got := <-answer; !strings.HasPrefix(got, "200 OK") {
		t.Error(got)
	}
	leave()
	until(t, d, isClosed("chat", 1))
}

// A daemon that stops says so, and the next one brings the service.
func TestADaemonThatStopsIsNotTheEnd(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, api.FrontService{Name: "chat", State: "away"})
	asked := 0
	d.bring = func(context.Context, api.FrontBring) (api.FrontBrought, *api.Problem) {
		if asked++; asked < 3 {
			return api.FrontBrought{}, &api.Problem{Status: http.StatusServiceUnavailable, Code: "stopping", Detail: "The daemon is about to stop."}
		}
		return api.FrontBrought{Epoch: 1, Port: s.port, UID: os.Getuid()}, nil
	}
	f := startFront(t, d)
	if resp, text := f.do(t, "GET", "/services/chat/x", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("%s after %d questions: %s", resp.Status, asked, text)
	}
}

// A front whose daemon was stopped for good ends, unless a service is open.
func TestAFrontWithoutADaemonEnds(t *testing.T) {
	d := newDaemon(t, api.FrontService{Name: "chat", State: "away"})
	f := startFront(t, d, func(f *Front) { f.alone = 10 * time.Millisecond })
	d.stop()
	select {
	case err := <-f.done:
		if f.done <- nil; err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
	s := startServer(t)
	d = newDaemon(t, ready("chat", s, 1))
	f = startFront(t, d)
	if d.stop(); f.table.idle() {
		t.Error("a service is open, and it would end")
	}
	f.obeyOne(t.Context(), closing(ready("chat", s, 1)))
	if !f.table.idle() {
		t.Error("nothing is open, and it would go on")
	}
}

func TestSocketsNeitherBringNorKeep(t *testing.T) {
	s := startServer(t)
	asset := ready("chat", s, 1)
	asset.Ignore = []string{"*.js", "/ws/*"}
	d := newDaemon(t, asset)
	f := startFront(t, d)
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /services/chat/ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	for _, word := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(c, word)
		if got, err := in.ReadString('\n'); got != word {
			t.Fatal(got, err)
		}
	}
	if got := f.echoed(t, "GET", "/services/chat/a/page.js", ""); got.URI != "/a/page.js" {
		t.Error(got)
	}
	d.order(closing(asset))
	until(t, d, isClosed("chat", 1)) // although the socket is open
	if _, err := in.ReadString('\n'); err == nil {
		t.Error("the socket outlived the stay of its service")
	}
	if event := s.next(t); event != "socket closed" {
		t.Error(event)
	}
	if resp, text := f.do(t, "GET", "/services/chat/page.js", ""); resp.StatusCode != 503 || !strings.Contains(text, "does not bring it") {
		t.Error(resp.Status, text)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.reports {
		if r.Open != nil && r.Open.Open > 0 || r.Counted != nil {
			t.Errorf("it was counted: %+v", r.Open)
		}
	}
}

// Only a request for a WebSocket is none that is counted, and it gets nothing but one. Other
// protocols are for nobody.
func TestOnlyAWebSocketIsNotCounted(t *testing.T) {
	chat := ready("chat", startServer(t), 1)
	chat.MaxOpen = 1
	d := newDaemon(t, chat)
	f := startFront(t, d)
	_, pieces, leave := f.stream(t, "/services/chat/v1/stream?n=1&stay=1")
	if _, err := pieces.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	until(t, d, isOpen("chat", 1, 0))
	for _, c := range []struct {
		method, body string
		header       []string
		status       int
	}{
		{"GET", "", []string{"Upgrade", "x"}, 429},
		{"GET", "", []string{"Upgrade", "websocket"}, 429},
		{"GET", "", []string{"Connection", "Upgrade", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQAAP__"}, 429},
		{"GET", "", []string{"Connection", "Upgrade", "Upgrade", "websocket, h2c"}, 429},
		{"POST", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 429},
		{"GET", "body", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 429},
		{"GET", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 502},
	} {
		if resp, text := f.do(t, c.method, "/services/chat/x", c.body, c.header...); resp.StatusCode != c.status {
			t.Errorf("%s with %q: %s %s, want %d", c.method, c.header, resp.Status, text, c.status)
		}
	}
	d.forget()
	leave()
	until(t, d, isOpen("chat", 0, 0))
	got := f.echoed(t, "GET", "/services/chat/x", "", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQAAP__").Header
	if got.Get("Upgrade") != "" || got.Get("Http2-Settings") != "" || got.Get("Connection") != "" {
		t.Error(got)
	}
}

func TestProbesAndCalls(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, api.FrontService{Name: "chat", State: "starting", Epoch: 1})
	startFront(t, d)
	at := api.FrontEpoch{Service: "chat", Epoch: 1}
	probed := func(epoch uint64) func(api.FrontReport) (*api.FrontOutcome, bool) {
		return func(r api.FrontReport) (*api.FrontOutcome, bool) {
			return r.Probed, r.Probed != nil && r.Probed.Epoch == epoch
		}
	}
	d.order(api.FrontOrder{Probe: &api.FrontProbe{FrontEpoch: at, Port: s.port, UID: os.Getuid(), Ready: api.FrontReady{Path: "/health"}, Timeout: 60}})
	if got := until(t, d, probed(1)); !got.OK {
		t.Errorf("%+v", got)
	}
	at.Epoch = 2
	d.order(api.FrontOrder{Probe: &api.FrontProbe{FrontEpoch: at, Port: s.port, UID: os.Getuid(), Ready: api.FrontReady{Path: "/broken"}, Timeout: 3}})
	if got := until(t, d, probed(2)); got.OK || !strings.Contains(got.Error, "out of order") {
		t.Errorf("%+v", got)
	}
	at.Epoch = 3
	d.order(api.FrontOrder{Probe: &api.FrontProbe{FrontEpoch: at, Port: s.port, UID: os.Getuid() + 1, Timeout: 0.1}})
	if got := until(t, d, probed(3)); got.OK || !strings.Contains(got.Error, "belongs to user") {
		t.Errorf("%+v", got)
	}
	// A probe of a service that does not start any more ends without a report.
	at.Epoch = 4
	d.order(api.FrontOrder{Probe: &api.FrontProbe{FrontEpoch: at, Port: 1, UID: os.Getuid(), Timeout: 60}})
	d.order(api.FrontOrder{Service: &api.FrontService{Name: "chat", State: "failed"}})

	called := func(id string) func(api.FrontReport) (*api.FrontOutcome, bool) {
		return func(r api.FrontReport) (*api.FrontOutcome, bool) {
			return r.Called, r.Called != nil && r.Called.ID == id
		}
	}
	call := api.FrontCall{FrontEpoch: at, ID: "a", Port: s.port, UID: os.Getuid(), Timeout: 60, Calls: []api.FrontHTTPCall{{Method: "POST", Path: "/sleep", Body: "{}"}, {Method: "GET", Path: "/broken"}, {Method: "POST", Path: "/sleep"}}}
	d.order(api.FrontOrder{Call: &call})
	if got := until(t, d, called("a")); got.OK || !strings.Contains(got.Error, "out of order") {
		t.Errorf("%+v", got)
	}
	call.ID, call.Calls = "b", call.Calls[:1]
	d.order(api.FrontOrder{Call: &call})
	if got := until(t, d, called("b")); !got.OK {
		t.Errorf("%+v", got)
	}
	for range 2 {
		if event := s.next(t); event != "sleep" {
			t.Error(event)
		}
	}
}

// A server that died while the daemon has not noticed costs a wait, not an error.
func TestTheServerDies(t *testing.T) {
	first, second := startServer(t), startServer(t)
	d := newDaemon(t, ready("chat", first, 1))
	f := startFront(t, d)
	resp, pieces, _ := f.stream(t, "/services/chat/v1/stream?n=1&stay=1")
	if _, err := pieces.ReadString('\n'); err != nil || resp.StatusCode != 200 {
		t.Fatal(err)
	}
	_ = first.cmd.Process.Kill()
	_ = first.cmd.Wait()
	if _, err := io.ReadAll(pieces); err == nil {
		t.Error("a stream that broke off looks whole")
	}
	until(t, d, func(r api.FrontReport) (bool, bool) {
		return true, r.Counted != nil && r.Counted.Failed == 1
	})
	answer := make(chan string, 1)
	go func() {
		resp, text, err := f.try("POST", "/v1/chat/completions", strings.NewReader(`{"model":"chat"}`))
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- resp.Status + text
	}()
	until(t, d, isOpen("chat", 0, 0))
	next := ready("chat", second, 2)
	d.order(api.FrontOrder{Service: &next})
	if got := <-answer; !strings.HasPrefix(got, "200 OK") {
		t.Error(got)
	}
}

// A front that ends takes no more requests, and lets the last ones end.
func TestTheFrontEndsAfterItsStreams(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, ready("chat", s, 1))
	f := startFront(t, d)
	_, pieces, leave := f.stream(t, "/services/chat/v1/stream?n=1&stay=1")
	if _, err := pieces.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	until(t, d, isOpen("chat", 1, 0))
	f.stop()
	for {
		if c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://")); err != nil {
			break
		} else {
			_ = c.Close()
		}
	}
	d.order(closing(ready("chat", s, 1)))
	leave()
	until(t, d, isClosed("chat", 1))
	if err := <-f.done; err != nil {
		t.Error(err)
	}
	f.done <- nil
}

// Requests that do not end in time are broken off, and their callers told, each in the form
// that it reads; also one that has no answer yet.
func TestRequestsAreBrokenOff(t *testing.T) {
	const why = "The service chat had to go."
	for path, want := range map[string]string{
		"/services/chat/v1/stream?n=1&stay=1": "data: {\"error\":{\"message\":\"The service chat had to go.\",\"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"cut_off\"}}\n\n",
		"/services/chat/hang/v1/messages":     "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"The service chat had to go.\"}}\n\n",
	} {
		const epoch = 1
		s := startServer(t)
		d := newDaemon(t, ready("chat", s, epoch))
		f := startFront(t, d)
		resp, pieces, _ := f.stream(t, path)
		if first, err := pieces.ReadString('\n'); err != nil || first != "data: {\"i\":0}\n" {
			t.Fatal(first, err)
		}
		silent := make(chan *http.Response, 1)
		go func() {
			resp, err := http.Get(f.url + "/services/chat/silent")
			if err != nil {
				t.Error(err)
			}
			silent <- resp
		}()
		until(t, d, isOpen("chat", 2, 0))
		overdue := ready("chat", s, epoch)
		overdue.Cut = why
		d.order(closing(overdue))
		rest, err := io.ReadAll(pieces)
		if err == nil || !strings.HasSuffix(string(rest), "\n\n"+want) {
			t.Errorf("%s ends with %q, %v", path, rest, err)
		}
		_ = resp.Body.Close()
		if resp := <-silent; resp != nil {
			text, _ := io.ReadAll(resp.Body)
			if _ = resp.Body.Close(); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(text), why) {
				t.Errorf("one without an answer gets %s, %s", resp.Status, text)
			}
		}
		until(t, d, isClosed("chat", epoch))
		again := ready("chat", s, epoch+1)
		d.order(api.FrontOrder{Service: &again})
		d.order(closing(api.FrontService{Name: "unknown", Epoch: epoch}))
		until(t, d, isClosed("unknown", epoch))    // it has heard both
		f.echoed(t, "GET", "/services/chat/x", "") // the next stay is as any other
	}
}

// A connection that is taken after its server's requests were broken off is not used.
func TestNothingBeginsAfterTheBreak(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := (&Front{owner: peercred.New(process.Proc()).Listening}).connect(api.FrontService{Port: l.Addr().(*net.TCPAddr).Port, UID: os.Getuid()})
	kept, err := s.take(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	s.put(kept)
	s.breakOff("it goes")
	if _, err := s.take(t.Context(), false); !errors.Is(err, errCut) {
		t.Error(err)
	}
}

// A kept connection that takes no request any more is replaced, whatever it took before.
func TestAKeptConnectionThatTakesNothing(t *testing.T) {
	own := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer own.Close()
	s := (&Front{owner: peercred.New(process.Proc()).Listening}).connect(api.FrontService{Port: own.Listener.Addr().(*net.TCPAddr).Port, UID: os.Getuid()})
	for i := range 2 {
		r, err := http.NewRequest("GET", own.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.RoundTrip(r)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		for _, kept := range s.idle {
			_ = kept.Conn.(*net.TCPConn).CloseWrite()
		}
	}
	s.close()
}

// A server that closes a kept connection instead of answering gets the request again, if
// that does no harm.
func TestAKeptConnectionThatCloses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // each connection has one answer, and then an end in the middle of a request
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			if _, err := http.ReadRequest(in); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
			_, _ = http.ReadRequest(in)
			_ = c.Close()
		}
	}()
	f := startFront(t, newDaemon(t, api.FrontService{Name: "chat", State: "ready", Epoch: 1, Port: l.Addr().(*net.TCPAddr).Port, UID: os.Getuid()}))
	for i, c := range []struct {
		method string
		want   int
	}{{"GET", 200}, {"GET", 200}, {"POST", 502}} {
		if resp, text := f.do(t, c.method, "/services/chat/x", ""); resp.StatusCode != c.want {
			t.Errorf("request %d, %s: %s %s, want %d", i, c.method, resp.Status, text, c.want)
		}
	}
}

// A report that the daemon does not take for the moment is sent again: somebody waits for
// what it says.
func TestAReportThatIsRefused(t *testing.T) {
	d := newDaemon(t, api.FrontService{Name: "chat", State: "away"})
	refusals := []*api.Problem{problems.New(403, "not_the_front", "No."), problems.New(408, "request_timeout", "Late."), problems.New(429, "too_many", "Often.")}
	d.refuse = func() *api.Problem {
		if len(refusals) == 0 {
			return nil
		}
		first := refusals[0]
		refusals = refusals[1:]
		return first
	}
	startFront(t, d)
	d.order(closing(api.FrontService{Name: "unknown", Epoch: 9}))
	until(t, d, isClosed("unknown", 9))
}

// The answer to whoever asked for a service may come before the orders that led to it. They
// do not end the stay; what came after it does.
func TestLateOrders(t *testing.T) {
	for _, c := range []struct {
		state string
		epoch uint64
		open  bool
	}{
		{"parked", 2, true}, {"returning", 3, true}, {"starting", 3, true},
		{"leaving", 3, false}, {"parked", 3, false}, {"waiting", 3, false}, {"starting", 4, false},
	} {
		if got := (&stay{epoch: 3}).follows(api.FrontService{State: c.state, Epoch: c.epoch}); got != c.open {
			t.Errorf("%s of epoch %d leaves epoch 3 open: %v", c.state, c.epoch, got)
		}
	}
}
