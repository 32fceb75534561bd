package hooks

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/history/events"
)

// bench is hooks and everything they do to the world.
type bench struct {
	log  *events.Log
	stop func()        // ends Run and waits for it
	done chan struct{} // gets one for every event that was delivered or given up

	hooks  *Hooks
	damage *file.Damage // of Recall

	mu     sync.Mutex
	told   []gpu.Event
	wrong  []error // complaints about the file
	counts map[Status]int
	drops  int
	output []string
}

// run starts hooks with queues of the given size, which are not kept.
func run(t *testing.T, size int, transport http.RoundTripper, list ...Hook) *bench {
	t.Helper()
	return runFile(t, "", size, transport, list...)
}

// runFile starts hooks with queues of the given size, which are kept in a file.
func runFile(t *testing.T, path string, size int, transport http.RoundTripper, list ...Hook) *bench {
	t.Helper()
	b := &bench{log: events.New(1024, time.Now()), done: make(chan struct{}, 1024), counts: map[Status]int{}}
	complete(list)
	hs := New(Options{
		Hooks: list, Queue: size, File: path, Call: b.call(transport),
		Complain: func(err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.wrong = append(b.wrong, err)
		},
		Event: func(e gpu.Event) {
			b.mu.Lock()
			b.told = append(b.told, e)
			b.mu.Unlock()
			b.log.Publish(e)
		},
		Count: func(_ string, s Status) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.counts[s]++
			if s != Retried {
				b.done <- struct{}{}
			}
		},
		Dropped: func(string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.drops++
		},
	})
	b.hooks, b.damage = hs, hs.Recall()
	b.log.Attach(hs.Offer, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		hs.Run(ctx)
	}()
	b.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(b.stop)
	return b
}

// complete sets what a test leaves out.
func complete(list []Hook) {
	for i := range list {
		if list[i].Timeout == 0 {
			list[i].Timeout = 10 * time.Minute // longer than the slowest machine needs
		}
		if list[i].Severity == "" {
			list[i].Severity = gpu.Note
		}
	}
}

// call returns how hooks are called: by the real calls.
func (b *bench) call(transport http.RoundTripper) func(Hook) Call {
	web := NewWeb("node7", "1.2.3", transport)
	commands := Commands{Environ: []string{"PATH=/usr/bin:/bin"}, Output: func(_, text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.output = append(b.output, text)
	}}
	return func(h Hook) Call {
		if h.URL != "" {
			return web.Call(h.URL, h.Secret)
		}
		return commands.Call(h.Name, h.Command)
	}
}

func (b *bench) publish(code gpu.EventCode, severity gpu.Severity, text string) {
	b.log.Publish(gpu.Event{Time: time.Now(), Code: code, Severity: severity, GPU: "GPU-a", Lease: "job", Text: text, Data: map[string]any{"n": 1.0}})
}

// settle waits until so many events were delivered or given up.
func (b *bench) settle(n int) {
	for range n {
		<-b.done
	}
}

func (b *bench) texts() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.told {
		list = append(list, e.Text)
	}
	return list
}

// receiver is a web server in memory: it answers attempts with what answer says.
type receiver struct {
	answer func(attempt int, r *http.Request) (status int, header http.Header, err error)

	mu       sync.Mutex
	attempts []attempt
}

type attempt struct {
	at   time.Duration // since the first
	body string
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	n := len(r.attempts)
	at := time.Duration(time.Now().UnixNano())
	r.attempts = append(r.attempts, attempt{at, string(body)})
	r.mu.Unlock()
	status, header, err := r.answer(n, request)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: header, Request: request, Body: io.NopCloser(strings.NewReader("")),
	}, nil
}

// gaps are the times between attempts.
func (r *receiver) gaps() (list []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.attempts); i++ {
		list = append(list, r.attempts[i].at-r.attempts[i-1].at)
	}
	return list
}

func (r *receiver) bodies() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		list = append(list, a.body)
	}
	return list
}

func always(status int) func(int, *http.Request) (int, http.Header, error) {
	return func(int, *http.Request) (int, http.Header, error) { return status, nil, nil }
}
