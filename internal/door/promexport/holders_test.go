package promexport

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// run lets a ledger work until the test ends.
func run(t *testing.T, book *ledger.Ledger) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- book.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

func request(user, service string, memory gpu.MiB) lease.Request {
	return lease.Request{
		ID: user + "-" + service, Holder: lease.Holder{User: user, UID: lease.NoUID, Service: service}, Binding: lease.ByName,
		Memory: memory, Slots: 1, Wait: gpu.Some(time.Duration(0)), By: access.Daemon(), Terms: lease.Terms{EnforcedBy: "watchdog"},
	}
}

func hold(t *testing.T, book *ledger.Ledger, user, service string, memory gpu.MiB) {
	t.Helper()
	if _, err := book.Acquire(t.Context(), request(user, service, memory)); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("the page has no line %s:\n%s", line, strings.Join(about(page), "\n"))
		}
	}
}

// about returns the lines of a page about users and services.
func about(page string) []string {
	var lines []string
	for line := range strings.Lines(page) {
		named := strings.Contains(line, `service="`) && !strings.Contains(line, `service=""`)
		if named || strings.Contains(line, "{user=") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestHoldersAreOnThePage(t *testing.T) { synctest.Test(t, testHolders) }

func testHolders(t *testing.T) {
	e, book := writing(t, true, journal.Forgetful())
	run(t, book)
	hold(t, book, "anna", "embedder", 2048)
	hold(t, book, "bob", "embedder", 1024)
	waits := request("bob", "trainer", 6000)
	waits.Wait = gpu.Some(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); _, _ = book.Acquire(ctx, waits) }()
	synctest.Wait() // until the request is in the queue
	expect(t, scrape(e),
		`gpu_service_leases{service="embedder"} 2`, `gpu_service_memory_leased_mb{service="embedder"} 3072`, `gpu_service_slots{service="embedder"} 2`,
		`gpu_service_waiting{service="trainer"} 1`, `gpu_service_leases{service="trainer"} 0`,
		`gpu_user_leases{user="anna"} 1`, `gpu_user_memory_leased_mb{user="bob"} 1024`, `gpu_user_waiting{user="bob"} 1`, `gpu_user_memory_measured_mb{user="bob"} 0`)
	cancel()
	<-over
	if _, err := book.Release(t.Context(), lease.Name{ID: "anna-embedder"}, 0, access.Daemon()); err != nil {
		t.Fatal(err)
	}
	expect(t, scrape(e), `gpu_user_leases{user="anna"} 0`, `gpu_user_memory_leased_mb{user="anna"} 0`, `gpu_service_waiting{service="trainer"} 0`)
	e.HookDropped("pager")
	if !strings.Contains(scrape(e), "pager") || strings.Contains(scrape(e.Nameless), "pager") {
		t.Error("the page with names has no hook, or the other one has it")
	}
	if names := about(scrape(e.Nameless)); len(names) > 0 {
		t.Errorf("the page without names has %q", names)
	}
}

func TestNamesDoNotFillThePage(t *testing.T) {
	e, book := writing(t, true, journal.Forgetful())
	run(t, book)
	for i := range 200 {
		user, service := fmt.Sprintf("user%d", i), fmt.Sprintf("service%d", i)
		r := request(user, service, 8)
		r.Slots = 0
		if _, err := book.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			scrape(e) // names get their labels when the page is read
		}
	}
	text := scrape(e)
	if got := strings.Count(text, "\ngpu_user_leases{"); got != 51 {
		t.Errorf("%d users are on the page, want 50 and the others", got)
	}
	if got := strings.Count(text, "\ngpu_service_leases{"); got != 52 {
		t.Errorf("%d services are on the page, want 50, the others and none", got)
	}
	expect(t, text, `gpu_user_leases{user="user0"} 1`, `gpu_user_leases{user="other"} 150`, `gpu_user_memory_leased_mb{user="other"} 1200`)
}

// Calls are counted by route and user, for those who may see names. Users beyond the labels
// are one.
func TestCalls(t *testing.T) {
	e := exporter(t)
	for i := range 60 {
		e.Called("GET /api/leases", fmt.Sprintf("user%02d", i))
	}
	e.Called("GET /healthz", "")
	e.Called("GET /api/leases", "user07")
	expect(t, scrape(e),
		`berth_calls_total{route="GET /api/leases",user="user07"} 2`, `berth_calls_total{route="GET /api/leases",user="other"} 10`, `berth_calls_total{route="GET /healthz",user=""} 1`)
	if strings.Contains(scrape(e.Nameless), "berth_calls_total") || strings.Contains(scrape(e), `gpu_user_leases{user=""}`) {
		t.Error("the page without names has the calls of users, or the other one a user without a name")
	}
}
