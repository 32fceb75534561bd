package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
)

// follow asks for a path and for every page that a Link header names.
func follow[T any](t *testing.T, d *door, path string, each func(page T)) (pages int) {
	t.Helper()
	for path != "" {
		w := d.ask("GET", path, "")
		if w.Code != http.StatusOK {
			t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
		}
		each(decode[T](t, w))
		link, rel, _ := strings.Cut(w.Header().Get("Link"), ">; ")
		if link != "" && rel != `rel="next"` {
			t.Fatalf("GET %s: Link: %s", path, w.Header().Get("Link"))
		}
		path = strings.TrimPrefix(link, "<")
		if pages++; pages > 1000 {
			t.Fatal("the pages do not end")
		}
	}
	return pages
}

func (d *door) hold(id string) {
	if w := d.ask("POST", "/api/gpu/memory/allocate", fmt.Sprintf(`{"allocation_id":%q,"memory_mb":1,"binding":"named"}`, id)); w.Code != http.StatusCreated {
		d.t.Fatalf("hold %s: %d %s", id, w.Code, w.Body)
	}
}

func (d *door) end(id string) {
	if w := d.ask("DELETE", "/api/leases/"+id, ""); w.Code != http.StatusOK {
		d.t.Fatalf("end %s: %d %s", id, w.Code, w.Body)
	}
}

// A lease that stands from the first page to the last is on exactly one of them,
// whatever comes and goes between.
func TestPagesWhileLeasesChange(t *testing.T) {
	for seed := range uint64(8) {
		d, random := open(t, "2xrtx-4060"), rand.New(rand.NewPCG(seed, 0))
		var standing, passing []string
		for i := range 40 {
			id := fmt.Sprintf("lease-%02d", i)
			if d.hold(id); random.IntN(2) == 0 {
				standing = append(standing, id)
			} else {
				passing = append(passing, id)
			}
		}
		seen := map[string]int{}
		follow(t, d, fmt.Sprintf("/api/leases?limit=%d", 1+random.IntN(9)), func(page api.Leases) {
			for _, l := range page.Leases {
				seen[l.ID]++
			}
			for range min(3, len(passing)) {
				i := random.IntN(len(passing))
				d.end(passing[i])
				passing = slices.Delete(passing, i, i+1)
			}
			if len(seen) < 60 {
				d.hold(fmt.Sprintf("new-%d", len(seen)))
			}
		})
		for _, id := range standing {
			if seen[id] != 1 {
				t.Errorf("seed %d: %s stood all the time, and is on %d pages", seed, id, seen[id])
			}
		}
	}
}

// The same while others change leases at any moment.
func TestPagesBesideOthers(t *testing.T) {
	d := open(t, "2xrtx-4060")
	for i := range 30 {
		d.hold(fmt.Sprintf("standing-%d", i))
	}
	stop, running := make(chan struct{}), new(sync.WaitGroup)
	for n := range 3 {
		running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					id := fmt.Sprintf("passing-%d-%d", n, i)
					d.hold(id)
					d.end(id)
				}
			}
		})
	}
	for range 20 {
		seen := map[string]int{}
		follow(t, d, "/api/leases?limit=4", func(page api.Leases) {
			for _, l := range page.Leases {
				seen[l.ID]++
			}
		})
		for i := range 30 {
			if id := fmt.Sprintf("standing-%d", i); seen[id] != 1 {
				t.Errorf("%s is on %d pages", id, seen[id])
			}
		}
	}
	close(stop)
	running.Wait()
}

// A request that waits is on one page; if it is granted between two pages, it
// follows as a lease. The order of the queue may change meanwhile.
func TestPagesWhileRequestsAreGranted(t *testing.T) {
	d := open(t, "1xrtx-4060")
	whole := decode[api.Available](t, d.ask("GET", "/api/gpu/memory/available", "")).GPUs[0].Available
	if w := d.ask("POST", "/api/leases", fmt.Sprintf(`{"id":"all","memory_mb":%d,"binding":"named"}`, whole)); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	const n = 12
	answered := new(sync.WaitGroup)
	for i := range n {
		answered.Go(func() {
			d.ask("POST", "/api/leases", fmt.Sprintf(`{"id":"r%d","memory_mb":%d,"priority":%d,"timeout_seconds":600,"binding":"named"}`, i, whole, i%3))
		})
		for waiting := 0; waiting <= i; runtime.Gosched() {
			_, waiting = d.Ledger.Len()
		}
	}
	waited, held, pages := map[string]int{}, map[string]int{}, 0
	follow(t, d, "/api/leases?limit=3", func(page api.Leases) {
		if !slices.IsSortedFunc(page.Waiting, func(a, b api.Waiting) int { return a.Position - b.Position }) {
			t.Errorf("a page is not in the order of the queue: %+v", page.Waiting)
		}
		for _, w := range page.Waiting {
			waited[w.ID]++
		}
		for _, l := range page.Leases {
			held[l.ID]++
		}
		if pages++; pages == 2 {
			d.end("all") // the first in the queue gets it
			for leases := 0; leases == 0; runtime.Gosched() {
				leases, _ = d.Ledger.Len()
			}
		}
	})
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		if waited[id] > 1 || held[id] > 1 || waited[id]+held[id] == 0 {
			t.Errorf("%s is on %d pages as a request, and on %d as a lease", id, waited[id], held[id])
		}
	}
	if len(held) != 2 { // all, and the one that was granted
		t.Errorf("leases %v", held)
	}
	for i := range n {
		d.ask("DELETE", fmt.Sprintf("/api/leases/r%d", i), "")
	}
	for _, waiting := d.Ledger.Len(); waiting > 0; _, waiting = d.Ledger.Len() {
		for i := range n {
			d.ask("DELETE", fmt.Sprintf("/api/leases/r%d", i), "")
		}
	}
	answered.Wait()
}

// Without a limit an answer is what it was before there were pages.
func TestListsWithoutLimit(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for i := range 5 {
		d.hold(fmt.Sprintf("lease-%d", i))
	}
	w := d.ask("GET", "/api/leases", "")
	if all := decode[api.Leases](t, w); len(all.Leases) != 5 || all.More != (api.More{}) || w.Header().Get("Link") != "" || strings.Contains(w.Body.String(), "next") {
		t.Errorf("%s", w.Body)
	}
	// After the last page there is nothing, and a limit that fits exactly is the end.
	if n := follow(t, d, "/api/leases?limit=5", func(api.Leases) {}); n != 1 {
		t.Errorf("%d pages", n)
	}
}

func TestPagesOfOtherLists(t *testing.T) {
	d := open(t, "")
	d.Past = archive.New()
	start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var past, tokens []string
	for i := range 10 {
		l := &lease.Lease{ID: fmt.Sprintf("past-%d", i), Fence: uint64(i + 1), Granted: start}
		d.Past.Ended(&lease.Effect{Kind: lease.Released, Time: start.Add(time.Duration(i/2) * time.Second), Before: l}, 0, gpu.Opt[gpu.Joules]{})
		past = append([]string{l.ID}, past...)
		for route, body := range map[string]string{
			"PUT /api/batches/b" + fmt.Sprint(i): fmt.Sprintf(`{"id":"b%d","output":"o","stage":"running","total_exact":false,"done":0,"done_before":0,"failed":0,"marked":0,"retries":0,"restarts":0,"workers":0,"gpus":[]}`, i),
			"POST /api/measurements":             fmt.Sprintf(`{"name":"m%d","memory_mb":1,"seconds":1}`, i),
			"POST /api/tokens":                   fmt.Sprintf(`{"name":"t%d","role":"viewer"}`, i),
		} {
			method, path, _ := strings.Cut(route, " ")
			if w := d.ask(method, path, body); w.Code >= 300 {
				t.Fatalf("%s: %d %s", route, w.Code, w.Body)
			}
		}
		tokens = append(tokens, fmt.Sprintf("t%d", i))
	}
	var got []string
	if n := follow(t, d, "/api/past/leases?limit=3", func(page api.PastLeases) {
		for _, l := range page.Leases {
			got = append(got, l.ID)
		}
	}); n != 4 || !slices.Equal(got, past) {
		t.Errorf("past leases, %d pages: %v", n, got)
	}
	got = nil
	if n := follow(t, d, "/api/tokens?limit=4", func(page api.Tokens) {
		for _, l := range page.Tokens {
			got = append(got, l.Name)
		}
	}); n != 3 || !slices.Equal(got, tokens) {
		t.Errorf("tokens, %d pages: %v", n, got)
	}
	got = nil
	if n := follow(t, d, "/api/measurements?limit=4", func(page api.Measurements) {
		for _, m := range page.Measurements {
			got = append(got, m.Name)
		}
	}); n != 3 || !slices.IsSorted(got) || len(got) != 10 {
		t.Errorf("measurements, %d pages: %v", n, got)
	}
	got = nil
	if n := follow(t, d, "/api/batches?limit=4", func(page api.Batches) {
		for _, b := range page.Batches {
			got = append(got, b.ID)
		}
	}); n != 3 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 10 || len(got) != 10 {
		t.Errorf("batches, %d pages: %v", n, got)
	}
	if n := follow(t, d, "/api/orphans?limit=4", func(api.Strays) {}); n != 1 {
		t.Errorf("orphans, %d pages", n)
	}
	// The cursor does not name users.
	page := decode[api.Batches](t, d.ask("GET", "/api/batches?limit=1", ""))
	if text, err := base64.RawURLEncoding.DecodeString(page.Next); err != nil || strings.Contains(string(text), "anyone") {
		t.Errorf("the cursor is %s (%v)", text, err)
	}
}

// More leases than an answer has are on two pages.
func TestLeasesAreBounded(t *testing.T) {
	d := open(t, "2xrtx-4060")
	for i := range mostListed + 1 {
		d.hold(fmt.Sprint(i))
	}
	var got []string
	if n := follow(t, d, "/api/leases", func(page api.Leases) {
		if (page.Next == "") != (page.Note == "") || len(page.Leases) > mostListed {
			t.Errorf("%d leases, %+v", len(page.Leases), page.More)
		}
		for _, l := range page.Leases {
			got = append(got, l.ID)
		}
	}); n != 2 || len(got) != mostListed+1 || got[0] != "0" || got[mostListed] != fmt.Sprint(mostListed) {
		t.Errorf("%d leases on %d pages", len(got), n)
	}
}

// An answer is bounded also for who gives no limit, and says so.
func TestAnswersAreBounded(t *testing.T) {
	all := make([]int, 2*mostListed+1)
	for i := range all {
		all[i] = i
	}
	p, sum := &Page{}, 0
	for {
		page, more, err := cut(p, "numbers", p.most(), slices.Clone(all), func(i int) int { return i }, func(a, b int) int { return a - b })
		if err != nil || len(page) > mostListed || (more.Next == "") != (more.Note == "") {
			t.Fatalf("%d entries, %+v, %v", len(page), more, err)
		}
		sum += len(page)
		if p.After = more.Next; p.After == "" {
			break
		}
	}
	if sum != len(all) {
		t.Errorf("%d entries, want %d", sum, len(all))
	}
}

func TestBadCursors(t *testing.T) {
	d := open(t, "1xrtx-4060")
	d.hold("a")
	d.hold("b")
	encode := base64.RawURLEncoding.EncodeToString
	good := decode[api.Leases](t, d.ask("GET", "/api/leases?limit=1", "")).Next
	if good == "" {
		t.Fatal("there is no second page")
	}
	for _, query := range []string{
		"after=x", "after=" + good[1:], "after=" + good + "x", "after=%00", "after=" + encode([]byte("null")), "after=" + encode([]byte("{}")),
		"after=" + encode([]byte(`{"list":"leases"}`)), "after=" + encode([]byte(`{"list":"leases","last":"x"}`)),
		"after=" + encode([]byte(`{"list":"leases","last":{"Fence":-1}}`)), "after=" + encode([]byte(`{"list":"tokens","last":"a"}`)),
		"after=" + strings.Repeat("A", 5000), "limit=0", "limit=-1", "limit=10001", "limit=ten", "limit=1.5", "limit=99999999999999999999", "before=x",
	} {
		for _, path := range []string{"/api/leases", "/api/past/leases", "/api/batches", "/api/measurements", "/api/orphans", "/api/tokens"} {
			w := d.ask("GET", path+"?"+query, "")
			if path == "/api/tokens" && strings.Contains(query, encode([]byte(`{"list":"tokens","last":"a"}`))) {
				continue // it is one of its own
			}
			p := decode[api.Problem](t, w)
			if w.Code != http.StatusUnprocessableEntity || p.Code != "invalid_request" || len(p.Fields) == 0 || p.Fields[0].Detail == "" {
				t.Errorf("GET %s?%.60s: %d %s", path, query, w.Code, w.Body)
			}
		}
	}
	// Cursors that name users or processes by a secret do not outlive the daemon.
	old := decode[json.RawMessage](t, d.ask("GET", "/api/batches?after="+encode([]byte(`{"list":"batches-1a","last":1}`)), ""))
	if !strings.Contains(string(old), "restarted") {
		t.Errorf("%s", old)
	}
}

// Pages of events end with the newest, and a stream has none.
func TestPagesOfEvents(t *testing.T) {
	d := open(t, "")
	for i := range 10 {
		code := gpu.EventThrottle
		if i%2 == 1 {
			code = gpu.EventResume
		}
		d.events.Publish(gpu.Event{Code: code, Severity: gpu.Note, Text: fmt.Sprint(i)})
	}
	for query, want := range map[string][]int{"": {4, 4, 2}, "&code=throttle": {4, 1}} {
		var got []int
		seen := map[string]bool{}
		for path := "/api/events?follow=false&limit=4" + query; path != ""; {
			w := d.ask("GET", path, "")
			if w.Code != http.StatusOK || len(got) > 5 {
				t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
			}
			n := 0
			for line := range strings.Lines(w.Body.String()) {
				if id, found := strings.CutPrefix(line, "id: "); found {
					if n++; seen[id] {
						t.Errorf("%s: event %s comes twice", path, id)
					}
					seen[id] = true
				}
			}
			got = append(got, n)
			link, _, _ := strings.Cut(w.Header().Get("Link"), ">; ")
			path = strings.TrimPrefix(link, "<")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	}
	for _, query := range []string{"limit=4", "follow=true&limit=4", "follow=false&limit=0", "follow=false&limit=10001", "follow=false&limit=x"} {
		if w := d.ask("GET", "/api/events?"+query, ""); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "limit") {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
