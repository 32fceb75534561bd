package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/when"
)

// keeper is a daemon with one lease. It writes down what it was asked and when.
type keeper struct {
	mu    sync.Mutex
	start time.Time
	calls []string // "SECONDS METHOD rest-of-path"
	grant api.LeaseRequest
	fence uint64
	// fail, if set, is what it answers instead: a status, or 0 for a broken
	// connection.
	fail func(r *http.Request) (status int, code string, failed bool)
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/api/leases")
	k.calls = append(k.calls, fmt.Sprintf("%v %s %s", time.Since(k.start).Seconds(), r.Method, path))
	if k.fail != nil {
		if status, code, failed := k.fail(r); failed {
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(api.Problem{Code: code, Detail: "No."})
			return
		}
	}
	if r.Method == http.MethodPost && path == "" {
		_ = json.Unmarshal(body, &k.grant)
		k.fence++
	}
	_ = json.NewEncoder(w).Encode(api.Lease{ID: k.grant.ID, Fence: k.fence, Binding: k.grant.Binding, TTL: k.grant.TTL.Or(0)})
}

func (k *keeper) fails(f func(r *http.Request) (int, string, bool)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = f
}

func (k *keeper) asked() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

// held is a lease of a new keeper, in a bubble.
func held(t *testing.T, r api.LeaseRequest) (*Lease, *keeper) {
	t.Helper()
	k := &keeper{start: time.Now()}
	c, err := New(Options{Transport: Through(quietly(k)), Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Hold(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return l, k
}

// quietly ends an answer that is aborted as a server would: it never comes.
func quietly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				<-r.Context().Done()
			}
		}()
		h.ServeHTTP(w, r)
	})
}

func isLost(l *Lease) bool {
	synctest.Wait()
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

func TestHoldRenewsAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k := held(t, api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)})
		time.Sleep(10 * time.Second)
		if isLost(l) {
			t.Error("it is lost")
		}
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		want := []string{"0 POST ", "3 POST /a/renew", "6 POST /a/renew", "9 POST /a/renew", "10 DELETE /a"}
		if diff := cmp.Diff(want, k.asked()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// A long time to live is not renewed every few seconds, but looked after.
func TestHoldRenewsNoMoreThanNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k := held(t, api.LeaseRequest{ID: "a"})
		if l.TTL != 60 || l.Binding != "ttl" {
			t.Errorf("without a socket: ttl %v, binding %q", l.TTL, l.Binding)
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		want := []string{"0 POST ", "5 GET /a", "10 GET /a", "15 GET /a", "20 POST /a/renew"}
		if diff := cmp.Diff(want, k.asked()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		_ = l.Close()
	})
}

func TestHoldIsLost(t *testing.T) {
	is := func(status int, code string) func(*http.Request) (int, string, bool) {
		return func(*http.Request) (int, string, bool) { return status, code, true }
	}
	for _, c := range []struct {
		name    string
		request api.LeaseRequest
		fail    func(*http.Request) (int, string, bool)
		after   time.Duration // 0: never
	}{
		{"renewal refused", api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)}, is(409, "stale_fence"), 3 * time.Second},
		{"released by somebody", api.LeaseRequest{ID: "a", Binding: "named"}, is(404, "unknown_allocation"), 5 * time.Second},
		{"daemon gone for longer than the ttl", api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)}, is(503, "stopping"), 9 * time.Second},
		{"daemon hangs", api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)}, is(0, ""), 9 * time.Second},
		{"too many requests for longer than the ttl", api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)}, is(429, "no_turn"), 9 * time.Second},
		{"too many requests, nothing to renew", api.LeaseRequest{ID: "a", Binding: "process"}, is(429, "no_turn"), 0},
		{"not allowed now, nothing to renew", api.LeaseRequest{ID: "a", Binding: "process"}, is(403, "token_user_gone"), 0},
		{"not allowed for longer than the ttl", api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)}, is(403, "token_user_gone"), 9 * time.Second},
		{"a request that did not arrive", api.LeaseRequest{ID: "a", Binding: "process"}, is(408, "request_timeout"), 0},
		{"daemon gone, nothing to renew", api.LeaseRequest{ID: "a", Binding: "process"}, is(503, "stopping"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, k := held(t, c.request)
				k.fails(c.fail)
				limit := c.after
				if limit == 0 {
					limit = time.Hour
				}
				time.Sleep(limit - time.Millisecond)
				if isLost(l) {
					t.Errorf("lost before %s", limit)
				}
				time.Sleep(time.Millisecond)
				if isLost(l) != (c.after != 0) {
					t.Errorf("after %s: lost is %v", limit, c.after == 0)
				}
				k.fails(nil)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A lease lasts from its grant, however long the answer took.
func TestHoldIsLostInTimeAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early, k := held(t, api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)})
		granted := early.Lease
		_ = early.Close()
		k.fails(func(*http.Request) (int, string, bool) { return 503, "stopping", true })
		early.client.local = true
		end := time.Now().Add(3 * time.Second)
		granted.Expires = &end
		l := early.client.hold(granted)
		time.Sleep(3*time.Second - time.Millisecond)
		if isLost(l) {
			t.Error("it is lost before its end")
		}
		time.Sleep(time.Millisecond)
		if !isLost(l) {
			t.Error("it is not lost at its end")
		}
		k.fails(nil)
		_ = l.Close()
	})
}

// Somebody has the id again: that is another lease.
func TestHoldIsLostToANewGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k := held(t, api.LeaseRequest{ID: "a", Binding: "named"})
		k.mu.Lock()
		k.fence++
		k.mu.Unlock()
		time.Sleep(5 * time.Second)
		if !isLost(l) {
			t.Error("it is not lost")
		}
		_ = l.Close()
	})
}

// A daemon that restarts between two renewals is not noticed by the holder.
func TestHoldOutlastsARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k := held(t, api.LeaseRequest{ID: "a", TTL: gpu.Some(9.0)})
		k.fails(func(*http.Request) (int, string, bool) { return 503, "stopping", true })
		time.Sleep(6500 * time.Millisecond)
		k.fails(nil)
		time.Sleep(10 * time.Second)
		if isLost(l) {
			t.Error("it is lost")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseOfWhatHasEnded(t *testing.T) {
	for code, ended := range map[string]bool{"unknown_allocation": true, "stale_fence": true, "not_yours": false} {
		synctest.Test(t, func(t *testing.T) {
			l, k := held(t, api.LeaseRequest{ID: "a", Binding: "named"})
			k.fails(func(*http.Request) (int, string, bool) { return 409, code, true })
			if err := l.Close(); (err == nil) != ended {
				t.Errorf("%s: error %v", code, err)
			}
		})
	}
}

// A grant whose answer never came is given back: its id was made up here, so
// nobody else can mean it.
func TestHoldGivesBackWhatItDidNotHearOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{start: time.Now(), fail: func(r *http.Request) (int, string, bool) { return 0, "", r.Method == http.MethodPost }}
		c, err := New(Options{Transport: Through(quietly(k))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Hold(ctx, api.LeaseRequest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		calls := k.asked()
		if len(calls) != 2 || calls[0] != "0 POST " || !strings.HasPrefix(calls[1], "1 DELETE /lease-") {
			t.Errorf("calls %q", calls)
		}
	})
}

// The client's time limit does not count while a request waits, and does after.
func TestWaitingIsNotLimited(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout gpu.Opt[float64]
		answer  time.Duration // when the daemon answers
		limit   time.Duration // when the client gives up; 0: never
	}{
		{"daemon decides", gpu.Opt[float64]{}, time.Hour, 0},
		{"no waiting", gpu.Some(0.0), time.Hour, 10 * time.Second},
		{"in time", gpu.Some(60.0), time.Minute, 0},
		{"daemon hangs", gpu.Some(60.0), time.Hour, 70 * time.Second},
		{"for ever", gpu.Some(1e300), time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if when.Pause(r.Context(), c.answer) {
						_, _ = io.WriteString(w, "{}")
					}
				})
				daemon, err := New(Options{Transport: Through(slow), Timeout: 10 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, err = daemon.Acquire(t.Context(), api.LeaseRequest{Timeout: c.timeout})
				if c.limit == 0 && err != nil {
					t.Error(err)
				}
				if c.limit != 0 && (!errors.Is(err, context.DeadlineExceeded) || time.Since(start) != c.limit) {
					t.Errorf("after %s: error %v", time.Since(start), err)
				}
			})
		})
	}
}

// Over a socket the daemon can see the process, so the lease is bound to it.
func TestHoldBindsToTheProcess(t *testing.T) {
	k := &keeper{start: time.Now()}
	c, err := New(Options{Socket: serveUnix(t, k)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Hold(t.Context(), api.LeaseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Binding != "process" || l.TTL != 0 {
		t.Errorf("binding %q, ttl %v", l.Binding, l.TTL)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
