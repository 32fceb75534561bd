package desk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when/later"
)

// openServices returns an office that runs a service of the user ada, which nobody has
// started, and the acts that it recorded.
func openServices(t *testing.T) (*workshop, *[]api.AuditEntry) {
	t.Helper()
	w := &workshop{office: open(t, "2xrtx-4060"), runs: &runRecords{records: map[string]runs.Record{}, started: make(chan string, 64)}}
	number := int64(0)
	services, damage := owner.Open(owner.Options{
		Folder: t.TempDir(), Boot: "boot", Minders: w.runs,
		Numbers:  func() (int64, error) { number++; return number, nil },
		Account:  func(string, int) (api.MinderAccount, error) { return api.MinderAccount{}, nil },
		FreePort: func() (int, error) { return 4711, nil },
		Publish:  func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Front: func() api.FrontSettings { return api.FrontSettings{} },
		LastLines: func(context.Context, *service.Spec, string, int) []string { return nil },
	})
	if damage != nil {
		t.Fatal(damage)
	}
	services.Configure([]service.Spec{{
		Name: "chat", Command: []string{"hush-server"}, Directory: "/hush", User: "ada", UID: 1000, Memory: gpu.Some[gpu.MiB](1000),
		Start: service.Never, Away: service.Stop, StartTimeout: time.Minute,
	}})
	var acts []api.AuditEntry
	w.parts.Services, w.parts.Logs = services, noLogs{}
	w.remake()
	w.parts.Record = func(e api.AuditEntry) error { acts = append(acts, e); return nil }
	w.remake()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	run := w.Services.Run
	go func() { defer close(done); _ = run(ctx) }()
	t.Cleanup(func() { stop(); w.stop(); <-done })
	for limit := time.Now().Add(time.Minute); len(services.List()) == 0; {
		if time.Now().After(limit) {
			t.Fatal("the service is not known")
		}
	}
	return w, &acts
}

var (
	ada   = access.Actor{User: "ada", UID: 1000, Door: access.Socket, Role: access.User}
	eve   = access.Actor{User: "eve", UID: 1001, Door: access.Socket, Role: access.User}
	vera  = access.Actor{User: "vera", UID: 1002, Door: access.Socket, Role: access.Viewer}
	olga  = access.Actor{User: "olga", UID: 1003, Door: access.Socket, Role: access.Operator}
	other = "another user"
)

// The user of a service and operators see its program; others see how it is.
func TestWhoSeesWhatOfAService(t *testing.T) {
	w, _ := openServices(t)
	for _, c := range []struct {
		by    access.Actor
		whole bool
		user  string
	}{{ada, true, "ada"}, {olga, true, "ada"}, {eve, false, "ada"}, {vera, false, other}} {
		s, err := w.Services.Show(c.by, "chat")
		if err != nil {
			t.Fatal(err)
		}
		if (s.Command != nil && s.Directory != "") != c.whole || s.User != c.user || s.State != "away" {
			t.Errorf("%s sees %+v", c.by.User, s)
		}
		if list := w.Services.List(c.by); len(list) != 1 || (list[0].Command != nil) != c.whole {
			t.Errorf("%s sees in the list %+v", c.by.User, list)
		}
	}
	failed := seenService(eve, api.Service{User: "ada", State: "failed", Why: "exec /hush", Failure: &api.ServiceFailure{Why: "exec /hush", Log: []string{"hush"}, Count: 2}, Log: "/hush", PID: 3, Port: 4})
	if failed.Why+failed.Failure.Why+failed.Log != notYours+notYours || failed.Failure.Log != nil || failed.PID != 0 || failed.Failure.Count != 2 {
		t.Errorf("others see %+v, %+v", failed, failed.Failure)
	}
	if stopped := seenService(eve, api.Service{User: "ada", State: "stopped", Why: "exec /hush", Failure: &api.ServiceFailure{Why: "exec /hush"}}); stopped.Why != notYours {
		t.Errorf("of one that failed and was stopped, others see %+v", stopped)
	}
	byToken := api.Service{User: "ada", State: "stopped", Why: "it was stopped by token ci; it goes by stop: its settings say so", Stopped: &api.FrontStopped{By: "token ci", Why: "olga needs it"}}
	if s := seenService(eve, byToken); s.Why != "it was stopped by a token; it goes by stop: its settings say so" || s.Stopped.By != "a token" || s.Stopped.Why != "olga needs it" {
		t.Errorf("of one that a token stopped, others see %+v, %+v", s, s.Stopped)
	}
	if s := seenService(vera, byToken); s.Why != notYours || *s.Stopped != (api.FrontStopped{By: other}) {
		t.Errorf("of one that a token stopped, viewers see %+v, %+v", s, s.Stopped)
	}
	if s := seenService(ada, byToken); s.Why != byToken.Why || s.Stopped.By != "token ci" {
		t.Errorf("of one that a token stopped, its user sees %+v, %+v", s, s.Stopped)
	}
	for _, name := range []string{"nothing", "", "chat-1"} {
		if _, err := w.Services.Show(olga, name); codeOf(err) != "unknown_service" {
			t.Errorf("%q is %v", name, err)
		}
	}
}

// The user of a service and operators start and stop it, and what an operator does is
// recorded.
func TestWhoDirectsAService(t *testing.T) {
	w, acts := openServices(t)
	do := func(by access.Actor, what ServiceChange, b api.ServiceOrder) (api.Service, error) {
		return w.Services.Change(t.Context(), Caller{Actor: by}, "chat", what, b)
	}
	for _, by := range []access.Actor{eve, vera, {}} {
		for _, what := range []ServiceChange{StartService, StopService, RestartService, MoveService} {
			if s, err := do(by, what, api.ServiceOrder{GPU: "0"}); err == nil {
				t.Errorf("%s may %s: %+v", by.User, what, s)
			} else if by == vera && strings.Contains(err.Error(), "ada") {
				t.Errorf("a viewer reads whose it is: %v", err)
			}
		}
	}
	if s, err := do(ada, StopService, api.ServiceOrder{Why: "enough\x1b"}); err != nil || s.State != "stopped" || s.Stopped == nil || !strings.Contains(s.Stopped.By, "ada") || !strings.HasPrefix(s.Stopped.Why, "enough") {
		t.Errorf("its user stops it: %+v, %v", s, err)
	}
	if len(*acts) != 0 {
		t.Errorf("what its user does is recorded: %+v", *acts)
	}
	if _, err := do(olga, StartService, api.ServiceOrder{Why: "needed"}); err != nil {
		t.Errorf("an operator starts it: %v", err)
	}
	if len(*acts) == 0 || (*acts)[0].Who.User != "olga" || (*acts)[0].Object != (api.AuditObject{Kind: "service", Owner: "ada", ID: "chat"}) || (*acts)[0].After["service"] != "start" {
		t.Errorf("recorded is %+v", *acts)
	}
	for what, b := range map[ServiceChange]api.ServiceOrder{MoveService: {}, StopService: {GPU: "0"}} {
		if _, err := do(ada, what, b); codeOf(err) != "invalid_request" {
			t.Errorf("%s with %+v: %v", what, b, err)
		}
	}
	if _, err := do(ada, MoveService, api.ServiceOrder{GPU: "7"}); codeOf(err) != "unknown_device" {
		t.Errorf("to a device that is not there: %v", err)
	}
	w.parts.Record = func(api.AuditEntry) error { return errors.New("the disk is full") }
	w.remake()
	if _, err := do(olga, StopService, api.ServiceOrder{}); err == nil {
		t.Error("an act that cannot be recorded is done")
	}
	if s, _ := w.Services.Show(ada, "chat"); s.State == "stopped" {
		t.Error("an act that could not be recorded was done")
	}
}

// A service that waits says who holds what it needs, and so does the answer to a request
// that waits no more.
func TestWhatAServiceWaitsFor(t *testing.T) {
	bob := Caller{Actor: access.Actor{User: "bob", UID: 1005, Door: access.Socket, Role: access.User}, Holder: lease.Holder{UID: 1005, User: "bob"}}
	w, _ := openServices(t)
	for _, id := range []string{"train", "more"} {
		if _, err := w.Leases.Acquire(t.Context(), bob, api.LeaseRequest{ID: id, Exclusive: true, Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Services.Change(t.Context(), Caller{Actor: ada}, "chat", StartService, api.ServiceOrder{}); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); ; {
		if k, has := w.parts.Services.KeyOf("chat"); has {
			if _, waits := w.parts.Ledger.ExplainWaiting(k); waits {
				break
			}
		}
		if time.Now().After(limit) {
			t.Fatal("the service does not wait")
		}
	}
	for by, want := range map[access.Actor]string{ada: "train of bob holds ", eve: "train of bob holds ", olga: "train of bob holds ", vera: "train of another user holds "} {
		s, err := w.Services.Show(by, "chat")
		if err != nil || s.State != "waiting" || !strings.HasPrefix(s.Why, "GPU 0 is leased to somebody alone; no room on 1 other GPU either; ") || !strings.Contains(s.Why, want) {
			t.Errorf("%s reads %q of one that is %s, %v", by.User, s.Why, s.State, err)
		}
		if by == vera && strings.Contains(s.Why, "bob") {
			t.Errorf("a viewer reads %q", s.Why)
		}
	}
	w.parts.Front = frontOf{60, true}
	w.remake()
	front := Caller{Actor: access.Actor{User: "berth-front", UID: 60, Door: access.Socket}, Certain: true}
	_, err := w.Services.FrontBring(t.Context(), front, api.FrontBring{Front: "f", Service: "chat", User: "eve", Waited: 600})
	no := (*owner.Refusal)(nil)
	if !errors.As(err, &no) || no.Status != 503 || no.Code != "start_timeout" || no.RetryAfter == 0 ||
		!strings.Contains(no.Why, "The service chat did not come within its start_timeout of 10 min: it waits: GPU 0 ") || !strings.Contains(no.Why, "train of bob holds ") {
		t.Errorf("a request that waits no more gets %v", err)
	}
}

// A service waits in the place of who asks for it, and not of its user; its user and
// operators see who that is.
func TestAServiceWaitsForItsCallers(t *testing.T) {
	w, _ := openServices(t)
	until := func(what string, is func() bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); !is(); {
			if time.Now().After(limit) {
				t.Fatal(what)
			}
			runtime.Gosched()
		}
	}
	callerOf := func(a access.Actor) Caller { return Caller{Actor: a, Holder: lease.Holder{UID: a.UID, User: a.User}} }
	for id, by := range map[string]access.Actor{"train": {User: "bob", UID: 1005, Door: access.Socket, Role: access.User}, "own": ada} {
		if _, err := w.Leases.Acquire(t.Context(), callerOf(by), api.LeaseRequest{ID: id, Exclusive: true, Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
			t.Fatal(err)
		}
	}
	place := func() int {
		if k, has := w.parts.Services.KeyOf("chat"); has {
			if e, waits := w.parts.Ledger.ExplainWaiting(k); waits {
				return e.Position
			}
		}
		return 0
	}
	if _, err := w.Services.Change(t.Context(), Caller{Actor: ada}, "chat", StartService, api.ServiceOrder{}); err != nil {
		t.Fatal(err)
	}
	until("the service does not wait", func() bool { return place() == 1 })
	var waiting sync.WaitGroup
	defer waiting.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	waiting.Go(func() {
		_, _ = w.Leases.Acquire(ctx, callerOf(eve), api.LeaseRequest{ID: "later", Memory: 1000, Binding: "named", Timeout: gpu.Some(3600.0)})
	})
	until("its user has half of the machine, and it is not behind somebody who has nothing", func() bool { return place() == 2 })
	w.parts.Front = frontOf{60, true}
	w.remake()
	front := Caller{Actor: access.Actor{User: "berth-front", UID: 60, Door: access.Socket}, Certain: true}
	waiting.Go(func() {
		_, _ = w.Services.FrontBring(ctx, front, api.FrontBring{Front: "f", Service: "chat", User: "token:rare"})
	})
	until("somebody who has used nothing asks for it, and it is not before a younger request", func() bool { return place() == 1 })
	for by, sees := range map[access.Actor]bool{ada: true, olga: true, eve: false, vera: false} {
		s, err := w.Services.Show(by, "chat")
		if seen := len(s.Callers) == 1 && s.Callers[0] == (api.ServiceCaller{User: "token:rare", Waiting: 1}); err != nil || seen != sees {
			t.Errorf("%s sees that %+v wait, %v", by.User, s.Callers, err)
		}
	}
}

// noLogs of a service that never began.
func TestLogOfAServiceThatNeverBegan(t *testing.T) {
	w, _ := openServices(t)
	read := func(by access.Actor) error {
		return w.Services.Log(t.Context(), Caller{Actor: by}, "chat", LogQuery{}, nil, nil)
	}
	if err := read(ada); codeOf(err) != "no_log" {
		t.Errorf("its user reads %v", err)
	}
	if err := read(eve); codeOf(err) == "no_log" || err == nil {
		t.Errorf("another user reads %v", err)
	}
}

// frontOf is the front of a test.
type frontOf struct {
	uid  int
	runs bool
}

func (f frontOf) User() (int, bool)    { return f.uid, f.runs }
func (frontOf) Seen(string, string)    {}
func (frontOf) State() *api.FrontState { return nil }

// Only the front, which the kernel names on the socket, gets orders.
func TestWhoIsTheFront(t *testing.T) {
	w, _ := openServices(t)
	front := Caller{Actor: access.Actor{User: "berth-front", UID: 60, Door: access.Socket, Role: access.User}, Certain: true}
	changed := func(change func(*Caller)) Caller {
		c := front
		change(&c)
		return c
	}
	w.parts.Front = frontOf{60, true}
	w.remake()
	if err := w.Services.FrontCalled(front); err != nil {
		t.Errorf("the front: %v", err)
	}
	for name, c := range map[string]Caller{
		"root":                 {Actor: access.Actor{User: "root", UID: 0, Door: access.Socket, Role: access.Admin}, Certain: true},
		"another user":         changed(func(c *Caller) { c.UID = 61 }),
		"over TCP":             changed(func(c *Caller) { c.Door = access.TCP }),
		"with a token":         changed(func(c *Caller) { c.Token = "t" }),
		"in a container":       changed(func(c *Caller) { c.Certain = false }),
		"somebody not known":   {Actor: access.Actor{UID: access.NoUID}},
		"the daemon's process": {Actor: access.Daemon()},
	} {
		refused := func(what string, err error) {
			if codeOf(err) != "not_the_front" {
				t.Errorf("%s may %s: %v", name, what, err)
			}
		}
		refused("ask who calls", w.Services.FrontCalled(c))
		refused("report", w.Services.FrontReports(c, api.FrontReports{Front: "f", Number: 1}))
		refused("get orders", w.Services.FrontOrders(t.Context(), c, "f", func(api.FrontOrder) error { t.Error("it got one"); return os.ErrClosed }))
		_, err := w.Services.FrontBring(t.Context(), c, api.FrontBring{Front: "f", Service: "chat"})
		refused("bring", err)
	}
	w.parts.Front = frontOf{60, false}
	w.remake()
	if err := w.Services.FrontCalled(front); err == nil {
		t.Error("its user is the front where none may run")
	}
}

// What cannot be handed over now passes as long as the lease stands. Without it, nothing is
// handed over, and nothing is ended.
func TestTheLeaseOfAService(t *testing.T) {
	w, _ := openServices(t)
	l := serviceLeases{runLeases{w.Leases}, w.Services}
	k := lease.Key{Owner: lease.Holder{UID: 1000, User: "ada"}.Owner(), ID: "chat-1"}
	ask := run.Ask{Key: k, User: "ada", Name: "chat", Request: api.LeaseRequest{ID: k.ID, Memory: 1000}}
	granted, err := l.Acquire(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	self, err := w.parts.Processes.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	lost := ask
	lost.Request.Isolation = "cgroup" // and there are no control groups
	if _, err := l.Hand(t.Context(), lost, granted.Fence, self); !later.Passes(err) || errors.Is(err, runs.ErrNoLease) {
		t.Errorf("what cannot be isolated now: %v", err)
	}
	unclaimed := lost // an earlier berth has granted it, and the disk is full since
	unclaimed.Key.Run = lease.Run{Kind: lease.OfService, Number: 1}
	if _, err := l.Hand(t.Context(), unclaimed, granted.Fence, self); !later.Passes(err) {
		t.Errorf("a lease that nobody could claim: %v", err)
	}
	if handed, err := l.Hand(t.Context(), ask, granted.Fence, self); err != nil || handed.Launch == nil && handed.Fence != granted.Fence {
		t.Errorf("once it is there: %+v, %v", handed, err)
	}
	w.parts.Config = gpuConfig(config.GPU{Context: 500, MPS: "off"}) // the lease is what it was when it was granted
	w.remake()
	mps := ask
	mps.Request.Enforce = "mps"
	if _, err := (serviceLeases{runLeases{w.Leases}, w.Services}).Hand(t.Context(), mps, granted.Fence, self); err != nil {
		t.Errorf("after the settings have changed: %v", err)
	}
	w.parts.Groups, w.parts.Config = &groups{fails: process.ErrGone, enclosed: map[uint64][]int{}}, gpuConfig(config.GPU{Context: 500, Isolation: "cgroup"})
	w.remake()
	apart := ask
	apart.Request.Enforce = "watchdog"
	if _, err := (serviceLeases{runLeases{w.Leases}, w.Services}).Hand(t.Context(), apart, granted.Fence, self); !later.Passes(err) {
		t.Errorf("a minder that lives, and is said to be gone: %v", err)
	}
	if err := w.parts.Ledger.GiveBack(k, granted.Fence, "it was released"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Hand(t.Context(), ask, granted.Fence, self); !errors.Is(err, runs.ErrNoLease) || later.Passes(err) {
		t.Errorf("without the lease: %v", err)
	}
	if err := l.End(k, granted.Fence, access.Daemon(), "it has to go"); !errors.Is(err, runs.ErrNoLease) {
		t.Errorf("to end the programs of a lease that has ended: %v", err)
	}
}

// A lease of a service whose state was lost is given back, unless a process has it: nobody
// else can release it.
func TestLeasesOfNoService(t *testing.T) {
	w, _ := openServices(t)
	l := serviceLeases{runLeases{w.Leases}, w.Services}
	self, err := w.parts.Processes.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for number, bound := range []bool{false, true} {
		k := lease.Key{Owner: lease.Holder{UID: 1000, User: "ada"}.Owner(), ID: fmt.Sprint("lost-", number), Run: lease.Run{Kind: lease.OfService, Number: int64(100 + number)}}
		ask := run.Ask{Key: k, User: "ada", Name: "lost", Request: api.LeaseRequest{ID: k.ID, Memory: 1000}}
		granted, err := l.Acquire(t.Context(), ask)
		if err == nil && bound {
			_, err = l.Hand(t.Context(), ask, granted.Fence, self)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.parts.Services.Report(api.FrontReports{}); err != nil { // it has begun
			t.Fatal(err)
		}
		w.parts.Services.Runs().Tidy()
		if stands := l.Stands(k); stands != bound {
			t.Errorf("bound to a process: %v, and it stands: %v", bound, stands)
		}
		for _, keep := range []bool{true, false} {
			if _, err := w.Leases.Release(t.Context(), local(t, 1000, "ada", access.User), lease.Name{ID: k.ID}, granted.Fence, keep); bound && codeOf(err) != "service_lease" {
				t.Errorf("released by its user, and what runs is kept: %v: %v", keep, err)
			}
		}
	}
}
