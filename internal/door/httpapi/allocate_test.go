package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// application is a program that allocates, and then runs until it is told to end.
type application struct {
	*exec.Cmd
	in     io.Closer
	answer api.Lease
	status int
}

// start starts a process of its own that allocates over a network.
func start(t *testing.T, network, address, body string) *application {
	t.Helper()
	a := &application{Cmd: exec.Command(os.Args[0], "-test.run=^TestApplication$")}
	a.Env = append(os.Environ(), "BERTH_TEST_NETWORK="+network, "BERTH_TEST_ADDRESS="+address, "BERTH_TEST_BODY="+body)
	out, err := a.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if a.in, err = a.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.exit)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	status, text, _ := strings.Cut(line, " ")
	if _, err := fmt.Sscan(status, &a.status); err != nil {
		t.Fatalf("the application said %q", line)
	}
	if err := json.Unmarshal([]byte(text), &a.answer); err != nil {
		t.Fatalf("the application said %q", line)
	}
	return a
}

// exit lets the application end.
func (a *application) exit() {
	_ = a.in.Close()
	_ = a.Wait()
}

// TestApplication is the application, in its own process.
func TestApplication(t *testing.T) {
	network := os.Getenv("BERTH_TEST_NETWORK")
	if network == "" {
		t.Skip("it is a part of other tests")
	}
	call := over(t, func() (net.Conn, error) { return net.Dial(network, os.Getenv("BERTH_TEST_ADDRESS")) })
	status, text := call("POST", "/api/gpu/memory/allocate", os.Getenv("BERTH_TEST_BODY"))
	fmt.Printf("%d %s\n", status, strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", " "))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// only returns the key of the only lease or request with an id, or a key that
// nothing has.
func (d *door) only(id string) lease.Key {
	k, err := d.Ledger.Seek(access.Daemon(), access.Look, lease.Name{ID: id})
	if err != nil {
		panic(err)
	}
	return k
}

// becomes waits until a lease is as it should be.
func (d *door) becomes(id string, right func(held ledger.Held, stands bool) bool) {
	for {
		if right(d.Ledger.Find(d.only(id))) {
			return
		}
		runtime.Gosched()
	}
}

func gone(_ ledger.Held, stands bool) bool { return !stands }

// doors returns the ways to a door, by network.
func (d *door) doors(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"unix": d.socket(t), "tcp": d.tcp(t, os.Geteuid())}
}

// use shows the ledger what a process uses of the first device.
func (d *door) use(pid int, memory gpu.MiB) {
	r := d.Monitor.Readings()[0]
	r.Sample.MemoryUsed = gpu.Some(memory)
	r.Sample.Processes = []gpu.Process{{PID: pid, Memory: gpu.Some(memory)}}
	d.Ledger.Observe(placement.Observation{Device: r.Device, Sample: &r.Sample, State: r.State, Health: r.Health})
}

// An application that used a GPU takes its allocation along, over TCP as over
// the socket, and its id is free again.
func TestAllocationEndsWithTheApplication(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for network, address := range d.doors(t) {
		t.Run(network, func(t *testing.T) {
			const body = `{"allocation_id":"app","memory_mb":4096}`
			for range 2 {
				a := start(t, network, address, body)
				if l := a.answer; a.status != http.StatusCreated || l.Binding != "process" || l.Holder.PID != a.Process.Pid || l.EnforcedBy != "watchdog" || l.Note != "" {
					t.Fatalf("answer is %d: %+v", a.status, l)
				}
				if again := start(t, network, address, body); again.status != http.StatusConflict {
					t.Errorf("the same id was answered with %d", again.status)
				}
				d.use(a.Process.Pid, 3900)
				if left := d.Ledger.Sum(d.Monitor.Readings()[0].Device.UUID); left.Foreign != 0 || left.Leased != 4096 {
					t.Errorf("%s are leased and %s foreign", left.Leased, left.Foreign)
				}
				if err := a.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = a.Wait()
				d.becomes("app", gone)
			}
		})
	}
}

// A program that only asks, as curl does in a script, leaves the allocation.
func TestAllocationOutlivesTheProgramThatOnlyAsks(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for network, address := range d.doors(t) {
		t.Run(network, func(t *testing.T) {
			a := start(t, network, address, `{"allocation_id":"script","memory_mb":1024}`)
			a.exit()
			d.becomes("script", func(held ledger.Held, _ bool) bool { return held.Lease != nil && held.Binding == "ttl" })
			l := decode[api.Lease](t, d.ask("GET", "/api/leases/script", ""))
			if l.TTL != 600 || l.Expires == nil || l.Fence != a.answer.Fence || l.EnforcedBy != "none" || l.Note == "" {
				t.Errorf("the lease is %+v", l)
			}
			if w := d.ask("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"script"}`); w.Code != http.StatusOK {
				t.Errorf("it could not be deallocated: %s", w.Body)
			}
		})
	}
}

// An application that failed while it started has its id back when it starts again, and the
// refusal says how.
func TestApplicationStartsAgain(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for network, address := range d.doors(t) {
		t.Run(network, func(t *testing.T) {
			const plain = `{"allocation_id":"app","memory_mb":1024}`
			first := start(t, network, address, plain)
			first.exit()
			d.becomes("app", func(held ledger.Held, _ bool) bool { return held.Lease != nil && held.Binding == "ttl" })
			p := expect(t, "without again", d.askAs(user(os.Geteuid()), "POST", "/api/gpu/memory/allocate", plain), http.StatusConflict, "duplicate_allocation")
			if !strings.Contains(p.Detail, `"again": "id"`) || !strings.Contains(p.Detail, `"binding": "process"`) {
				t.Errorf("the refusal says %q", p.Detail)
			}
			p = expect(t, "a named one", d.askAs(user(os.Geteuid()), "POST", "/api/gpu/memory/allocate", `{"allocation_id":"app","memory_mb":1024,"again":"id","binding":"named"}`), http.StatusConflict, "duplicate_allocation")
			if !strings.Contains(p.Detail, `no binding other than "process"`) {
				t.Errorf("the refusal of a named one says %q", p.Detail)
			}
			next := start(t, network, address, `{"allocation_id":"app","memory_mb":1024,"again":"id"}`)
			if l := next.answer; next.status != http.StatusCreated || l.Stood || l.Binding != "process" || l.Fence <= first.answer.Fence || l.Holder.PID != next.Process.Pid {
				t.Fatalf("answer is %d: %+v", next.status, l)
			}
			d.use(next.Process.Pid, 900)
			next.exit()
			d.becomes("app", gone)
		})
	}
}

// Whoever says what ends an allocation gets that.
func TestAllocationEndsAsAsked(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for network, address := range d.doors(t) {
		for _, test := range []struct {
			body, binding string
			ends          bool // with the process
		}{
			{`{"allocation_id":"x","memory_mb":1,"binding":"named"}`, "named", false},
			{`{"allocation_id":"x","memory_mb":1,"ttl_seconds":60}`, "ttl", false},
			{`{"allocation_id":"x","memory_mb":1,"binding":"process"}`, "process", true},
			{fmt.Sprintf(`{"allocation_id":"x","memory_mb":1,"pid":%d}`, child(t)), "process", false},
		} {
			t.Run(network+" "+test.body, func(t *testing.T) {
				a := start(t, network, address, test.body)
				if a.status != http.StatusCreated || a.answer.Binding != test.binding {
					t.Fatalf("answer is %d: %+v", a.status, a.answer)
				}
				a.exit()
				if test.ends {
					d.becomes("x", gone)
					return
				}
				held, stands := d.Ledger.Find(d.only("x"))
				if !stands || string(held.Binding) != test.binding || held.Implied {
					t.Errorf("it is %+v", held.Lease)
				}
				if _, err := d.Ledger.Release(t.Context(), lease.Name{ID: "x"}, 0, access.Daemon()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// child starts a process that lives as long as the test.
func child(t *testing.T) int {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	program := exec.CommandContext(ctx, "cat")
	if _, err := program.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = program.Wait() })
	return program.Process.Pid
}

// Where the daemon cannot tell which process calls, nothing ends the allocation
// by itself, and the answer says so.
func TestAllocationOfAnUnknownProcess(t *testing.T) {
	d := open(t, "1xrtx-4060")
	w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"x","memory_mb":1}`)
	if l := decode[api.Lease](t, w); w.Code != http.StatusCreated || l.Binding != "named" || !strings.Contains(l.Note, "does not know the process") {
		t.Errorf("answer is %d: %+v", w.Code, l)
	}
	w = d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"y","memory_mb":1,"binding":"process"}`)
	expect(t, "a process that is not known", w, http.StatusUnprocessableEntity, "invalid_request", "binding")
}

func TestAllocateAgain(t *testing.T) {
	d := open(t, "1xrtx-4060")
	ask := func(body string) (int, api.Lease) {
		w := d.ask("POST", "/api/gpu/memory/allocate", body)
		return w.Code, decode[api.Lease](t, w)
	}
	if status, l := ask(`{"allocation_id":"s","memory_mb":1000,"service":"s","again":"service"}`); status != http.StatusCreated || l.Stood {
		t.Errorf("the first time: %d %+v", status, l)
	}
	if status, l := ask(`{"allocation_id":"s","memory_mb":1000,"service":"s","again":"service"}`); status != http.StatusOK || !l.Stood || l.Was != 0 || l.Fence != 1 || l.Parts[0].Index != gpu.Some(0) {
		t.Errorf("the second time: %d %+v", status, l)
	}
	if status, l := ask(`{"allocation_id":"s","memory_mb":2000,"service":"s","again":"id"}`); status != http.StatusOK || !l.Stood || l.Was != 1000 || l.Parts[0].Memory != 2000 {
		t.Errorf("with another size: %d %+v", status, l)
	}
	w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"s","memory_mb":8000,"service":"s","again":"id"}`)
	p := expect(t, "without room", w, http.StatusConflict, "insufficient_memory")
	if p.Extra["held_mb"] != 2000.0 || p.Extra["requested_mb"] != 8000.0 || !strings.Contains(p.Detail, "from 1.954 GiB to 7.813 GiB") {
		t.Errorf("the refusal is %+v", p)
	}
	w = d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"s","memory_mb":2000,"service":"s"}`)
	expect(t, "without again", w, http.StatusConflict, "duplicate_allocation")
}

func TestSumsOfLeases(t *testing.T) {
	d := open(t, "2xrtx-4060")
	who := user(1)
	for _, body := range []string{`{"id":"a","memory_mb":1000,"gpu":"0"}`, `{"id":"p","memory_mb":2000,"slots":0,"gpu":"0","pool":true}`, `{"id":"c","memory_mb":500,"slots":0,"from_pool":"p"}`} {
		if w := d.askAs(who, "POST", "/api/leases", body); w.Code != http.StatusCreated {
			t.Fatal(w.Body)
		}
	}
	first := decode[api.Status](t, d.ask("GET", "/api/gpu/status?gpu=0&leases=true", ""))
	if first.Sums == nil || *first.Sums != (api.Allocations{Count: 3, Total: 3000}) || len(first.Leases) != 3 {
		t.Errorf("the sums are %+v, of %d leases", first.Sums, len(first.Leases))
	}
	all := decode[api.StatusAll](t, d.ask("GET", "/api/gpu/status/all?leases=true", ""))
	if first, second := all.GPUs[0].Sums, all.GPUs[1].Sums; first == nil || first.Total != 3000 || second == nil || *second != (api.Allocations{}) {
		t.Errorf("the sums of all are %+v and %+v", first, second)
	}
	if unasked := decode[api.Status](t, d.ask("GET", "/api/gpu/status?gpu=0", "")); unasked.Sums != nil {
		t.Errorf("unasked, the sums are %+v", unasked.Sums)
	}
}

func TestResize(t *testing.T) {
	d := open(t, "1xrtx-4060")
	who := user(1)
	if w := d.askAs(who, "POST", "/api/leases", `{"id":"x","memory_mb":1000}`); w.Code != http.StatusCreated {
		t.Fatal(w.Body)
	}
	if w := d.askAs(who, "POST", "/api/leases", `{"id":"capped","memory_mb":1000,"enforce":"framework"}`); w.Code != http.StatusCreated {
		t.Fatal(w.Body)
	}
	if w := d.askAs(holding(who.Holder, access.Admin), "POST", "/api/leases", `{"id":"scoped","memory_mb":100,"slots":0,"scope":["pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"]}`); w.Code != http.StatusCreated {
		t.Fatal(w.Body)
	}
	w := d.askAs(who, "POST", "/api/leases/x/resize", `{"fence":1,"memory_mb":3000}`)
	if l := decode[api.Lease](t, w); w.Code != http.StatusOK || l.Parts[0].Memory != 3000 || l.Fence != 1 {
		t.Errorf("answer is %d: %+v", w.Code, l)
	}
	w = d.askAs(who, "POST", "/api/leases/capped/resize", `{"memory_mb":900}`)
	if l := decode[api.Lease](t, w); w.Code != http.StatusOK || l.Parts[0].Memory != 900 || !strings.Contains(l.Note, "keep the memory limit") {
		t.Errorf("a lease that libraries hold to: %d %+v", w.Code, l)
	}
	for _, test := range []struct {
		who      doorkeeper.Identity
		id, body string
		status   int
		code     string
	}{
		{who, "x", `{"memory_mb":7000}`, 409, "insufficient_memory"},
		{who, "x", `{"memory_mb":0}`, 422, "invalid_request"},
		{who, "x", `{"memory_mb":-1}`, 422, "invalid_request"},
		{who, "x", `{}`, 422, "invalid_request"},
		{who, "x", `{"memory_mb":"much"}`, 422, "invalid_request"},
		{who, "x", `{"memory_mb":1e300}`, 422, "invalid_request"},
		{who, "x", `{"memory_mb":10,"fence":2}`, 409, "stale_fence"},
		{who, "x", `{"memory_mb":10,"fence":99}`, 409, "unknown_fence"},
		{who, "y", `{"memory_mb":10}`, 404, "unknown_allocation"},
		{who, "x", `{"memory_mb":10,"timeout_seconds":-1}`, 422, "invalid_request"},
		{who, "x", `{"memory_mb":10,"timeout_seconds":1e9}`, 422, "invalid_request"},
		{who, "x", `{"memory_mb":7000,"timeout_seconds":0.001}`, 409, "allocation_timeout"},
		{who, "x", `{"memory_mb":70000,"timeout_seconds":60}`, 409, "insufficient_memory"},
		{user(2), "x", `{"memory_mb":10}`, 404, "unknown_allocation"},
		{who, "scoped", `{"memory_mb":10}`, 409, "wrong_state"},
		{holding(who.Holder, viewer().Role), "x", `{"memory_mb":10}`, 403, "not_allowed"},
	} {
		w := d.askAs(test.who, "POST", "/api/leases/"+test.id+"/resize", test.body)
		expect(t, test.id+" "+test.body, w, test.status, test.code)
	}
}
