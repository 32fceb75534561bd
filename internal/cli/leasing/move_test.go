package leasing

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// moving follows a lease of 8 GiB in a bubble: it waits for 2 seconds, and its memory
// moves for 3.
func moving(t *testing.T, terminal int) (errs *bytes.Buffer, follow func(context.Context) error) {
	t.Helper()
	start := time.Now()
	daemon := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/explain") {
			answer(w, api.Explanation{Position: 1, Devices: []api.Obstacle{{GPU: "GPU-1", Code: "no_memory", Text: "needs 8 GiB and has 3 GiB"}}})
			return
		}
		l := api.Lease{ID: "train", State: "parked", Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 9000}}, Parking: &api.Parking{Since: start, Host: 8192}}
		if time.Since(start) > 2*time.Second {
			l.State, l.Parking.Since = "resuming", start.Add(2*time.Second)
		}
		answer(w, l)
	})
	c, err := client.New(client.Options{Transport: client.Through(daemon)})
	if err != nil {
		t.Fatal(err)
	}
	errs = new(bytes.Buffer)
	con := &console.Console{Env: console.Env{
		Err: errs, Getenv: func(string) string { return "" }, Now: time.Now,
		ErrTerminal: func() (int, bool) { return terminal, terminal > 0 },
	}}
	return errs, func(ctx context.Context) error {
		p := progress{notice: notice{Console: con, live: term.NewLive(errs), id: "train", gpus: view.GPUs{"GPU-1": 1}, since: con.Now()}, client: c, state: "parked"}
		_, err := p.follow(ctx, func(ctx context.Context) (api.Lease, error) {
			select {
			case <-time.After(5500 * time.Millisecond):
				return api.Lease{}, nil
			case <-ctx.Done():
				return api.Lease{}, context.Cause(ctx)
			}
		})
		return err
	}
}

// Elsewhere than on a terminal there is a line for every change.
func TestMovingInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, follow := moving(t, 0)
		if err := follow(t.Context()); err != nil {
			t.Error(err)
		}
		want := "berth: train waits, number 1 in the queue: GPU 1 needs 8 GiB and has 3 GiB\n" +
			"berth: train: 8 GiB moves back to GPU 1, for 1 s\n"
		if errs.String() != want {
			t.Errorf("said %q, want %q", errs, want)
		}
	})
}

// On a terminal it is one line, which is gone at the end.
func TestMovingOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, follow := moving(t, 60)
		if err := follow(t.Context()); err != nil {
			t.Error(err)
		}
		for _, part := range []string{"\rtrain waits 1 s, number 1 in the queue", "\rtrain: 8 GiB moves back to GPU 1, for 3 s\x1b[K"} {
			if !strings.Contains(errs.String(), part) {
				t.Errorf("said %q, without %q", errs, part)
			}
		}
		if !strings.HasSuffix(errs.String(), "\r\x1b[K") {
			t.Errorf("%q stays", errs)
		}
	})
}

func TestMovingIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, follow := moving(t, 0)
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, interrupt)
		if err := follow(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// looping is a loop against a daemon that answers as the function says.
func looping(daemon http.HandlerFunc) (o *loopOptions, out, errs *bytes.Buffer) {
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	o = &loopOptions{Console: &console.Console{Env: console.Env{Out: out, Err: errs, Getenv: func(string) string { return "" }, Now: time.Now}}}
	o.ask = func(ctx context.Context) (api.Optimization, error) {
		c, err := client.New(client.Options{Transport: client.Through(daemon)})
		if err != nil {
			return api.Optimization{}, err
		}
		defer c.Close()
		return c.Optimize(ctx, o.body)
	}
	return o, out, errs
}

// A loop goes on after a daemon that is busy, and ends with an interrupt.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := 0
		o, out, errs := looping(func(w http.ResponseWriter, _ *http.Request) {
			switch rounds++; rounds {
			case 2:
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusConflict)
				_, _ = w.Write([]byte(`{"status":409,"code":"optimizing","detail":"An optimization is under way."}`))
			default:
				answer(w, api.Optimization{Took: 2, Rungs: []api.Rung{{Name: "trim", Freed: 2048, Done: []api.RungStep{{}}}}})
			}
		})
		if err := o.interval.Set("300s"); err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(601*time.Second, interrupt)
		err := o.run(ctx)
		o.Begin(&cobra.Command{})
		if code := o.ExitCode(ctx, err); code != 130 {
			t.Errorf("exit code %d: %v", code, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if rounds != 3 || len(lines) != 2 || !strings.HasSuffix(lines[1], "  2 GiB freed in 2 s: trim 2 GiB.") {
			t.Errorf("%d rounds, said %q", rounds, out)
		}
		if errs.String() != "berth: this round did nothing: An optimization is under way.\n" {
			t.Errorf("said %q", errs)
		}
	})
}

// A loop does not repeat what will never succeed.
func TestLoopEndsWithARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, _ := looping(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"status":404,"code":"unknown_service","detail":"There is no service x."}`))
		})
		if err := o.run(t.Context()); !console.IsProblem(err, "unknown_service") {
			t.Errorf("error %v", err)
		}
	})
}

// A loop goes on while the daemon restarts, and says so once. It does not begin
// without a daemon.
func TestLoopWithoutADaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds, gone := 0, errors.New("nobody listens")
		o, out, errs := looping(nil)
		o.ask = func(context.Context) (api.Optimization, error) {
			if rounds++; rounds == 2 || rounds == 3 {
				return api.Optimization{}, gone
			}
			return api.Optimization{}, nil
		}
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(1000*time.Second, interrupt)
		if err := o.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if rounds != 4 || strings.Count(out.String(), "\n") != 2 || errs.String() != "berth: nobody listens; waiting for it to come back\n" {
			t.Errorf("%d rounds, said %q and %q", rounds, out, errs)
		}
		o, _, _ = looping(nil)
		o.ask = func(context.Context) (api.Optimization, error) { return api.Optimization{}, gone }
		if err := o.run(t.Context()); !errors.Is(err, gone) {
			t.Errorf("without a daemon: %v", err)
		}
	})
}
