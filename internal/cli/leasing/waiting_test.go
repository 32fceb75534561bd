package leasing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// waitingRoom is a command that waits for a lease in a bubble. The queue ahead
// of it gets one shorter every 3 seconds.
func waitingRoom(t *testing.T, terminal int, granted time.Duration) (con *console.Console, errs *bytes.Buffer, wait func(context.Context) error) {
	t.Helper()
	start := time.Now()
	daemon := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		position := 2 - int(time.Since(start)/(3*time.Second))
		answer(w, api.Explanation{Position: max(position, 1), Devices: []api.Obstacle{
			{GPU: "GPU-0", Code: "too_small", Text: "needs 40 GiB and could never have more than 8 GiB"},
			{GPU: "GPU-1", Code: "no_memory", Text: "needs 40 GiB and has 3 GiB"},
			{GPU: "GPU-2", Code: "no_memory", Text: "needs 40 GiB and has 2 GiB"},
		}})
	})
	c, err := client.New(client.Options{Transport: client.Through(daemon)})
	if err != nil {
		t.Fatal(err)
	}
	errs = new(bytes.Buffer)
	con = &console.Console{Env: console.Env{
		Err: errs, Getenv: func(string) string { return "" }, Now: time.Now,
		ErrTerminal: func() (int, bool) { return terminal, terminal > 0 },
	}}
	return con, errs, func(ctx context.Context) error {
		_, err := await(ctx, con, c, "big", view.GPUs{"GPU-1": 1}, func(ctx context.Context) (api.Lease, error) {
			select {
			case <-time.After(granted):
				return api.Lease{}, nil
			case <-ctx.Done():
				return api.Lease{}, context.Cause(ctx)
			}
		})
		return err
	}
}

func TestWaitingIsSaidAfterAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, errs, wait := waitingRoom(t, 0, 500*time.Millisecond)
		if err := wait(t.Context()); err != nil || errs.Len() > 0 {
			t.Errorf("said %q, error %v", errs, err)
		}
	})
}

// Elsewhere than on a terminal there is a line for every place in the queue.
func TestWaitingInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, errs, wait := waitingRoom(t, 0, 10500*time.Millisecond)
		if err := wait(t.Context()); err != nil {
			t.Error(err)
		}
		want := "berth: big waits, number 2 in the queue: GPU 1 needs 40 GiB and has 3 GiB; no room on 1 other GPU either\n" +
			"berth: big waits, number 1 in the queue: GPU 1 needs 40 GiB and has 3 GiB; no room on 1 other GPU either\n"
		if errs.String() != want {
			t.Errorf("said %q, want %q", errs, want)
		}
	})
}

// On a terminal it is one line, short enough to stay one, and gone at the end.
func TestWaitingOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, errs, wait := waitingRoom(t, 40, 2500*time.Millisecond)
		if err := wait(t.Context()); err != nil {
			t.Error(err)
		}
		want := "\rbig waits 1 s, number 2 in the queue…\x1b[K\rbig waits 2 s, number 2 in the queue…\x1b[K\r\x1b[K"
		if errs.String() != want {
			t.Errorf("said %q, want %q", errs, want)
		}
	})
}

func TestWaitingIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		con, _, wait := waitingRoom(t, 0, time.Hour)
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, interrupt)
		err := wait(ctx)
		if err == nil || !errors.Is(err, context.Canceled) || err.Error() != "the request for big was withdrawn: context canceled" {
			t.Errorf("error %v", err)
		}
		con.Begin(&cobra.Command{})
		if code := con.ExitCode(ctx, err); code != 130 {
			t.Errorf("exit code %d", code)
		}
	})
}

// A daemon that is slow for a moment costs nobody their place in the queue. It
// is said once for as long as that goes on.
func TestWaitingForADaemonThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		con, errs, _ := waitingRoom(t, 0, 0)
		var asked atomic.Int32
		stalls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1)%manyUnanswered != 0 {
				<-r.Context().Done()
				return
			}
			answer(w, api.Explanation{Position: 1, Text: "Somebody holds it."})
		})
		c, err := client.New(client.Options{Transport: client.Through(stalls), Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		_, err = await(t.Context(), con, c, "big", view.GPUs{}, func(context.Context) (api.Lease, error) {
			time.Sleep(time.Minute) // simulated
			return api.Lease{}, nil
		})
		stalled := "berth: the daemon does not answer; big keeps its place and waits on\n"
		waits := "berth: big waits, number 1 in the queue: Somebody holds it.\n"
		if want := stalled + waits + stalled + stalled; err != nil || errs.String() != want {
			t.Errorf("error %v, said %q, want %q", err, errs, want)
		}
	})
}

// A daemon that hangs will not grant anything either.
func TestWaitingForADaemonThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		con, errs, _ := waitingRoom(t, 0, 0)
		hung := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		c, err := client.New(client.Options{Transport: client.Through(hung), Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		left := make(chan struct{})
		_, err = await(t.Context(), con, c, "big", view.GPUs{}, func(ctx context.Context) (api.Lease, error) {
			<-ctx.Done()
			close(left)
			return api.Lease{}, ctx.Err()
		})
		<-left
		con.Begin(&cobra.Command{})
		con.Report(err)
		if code := con.ExitCode(t.Context(), err); code != 3 || !strings.Contains(errs.String(), "no answer within 10s") || !strings.Contains(errs.String(), "BERTH_PATIENCE") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	})
}

// A look that waits for the daemon does not hold up the lease.
func TestLookThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		con, _, _ := waitingRoom(t, 0, 0)
		c, err := client.New(client.Options{Patience: time.Minute, Transport: client.Through(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(api.Problem{Code: "too_many_connections"})
		}))})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		granted, err := await(t.Context(), con, c, "big", nil, func(context.Context) (api.Lease, error) {
			time.Sleep(3500 * time.Millisecond)
			return api.Lease{ID: "big"}, nil
		})
		if took := time.Since(begun); err != nil || granted.ID != "big" || took != 3500*time.Millisecond {
			t.Errorf("after %s: %+v, %v", took, granted, err)
		}
	})
}
