package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// A daemon is killed while exact requests are on their way, so that some of their
// leases are granted and nobody has the answer. The same requests again get the same
// leases, and each one once.
func TestExactLeasesOutliveTheDaemon(t *testing.T) {
	m := newMachine(t, 1)
	const claims = 40
	request := func(i int) api.LeaseRequest {
		return api.LeaseRequest{
			ID: fmt.Sprint("claim", i), Admitted: true, Scope: []string{fmt.Sprintf("pod0d9f7e4c-4f3e-4b0f-9d77-%012d", i)},
			Parts: []api.LeaseShare{{GPU: m.gpus[0].UUID, Memory: 10}, {GPU: m.gpus[1].UUID, Memory: 20}},
		}
	}
	fences := map[string]uint64{} // of the leases that were answered
	var mu sync.Mutex             // guards fences
	answered := func(l api.Lease) int {
		mu.Lock()
		defer mu.Unlock()
		if before, known := fences[l.ID]; known && (l.Fence != before || !l.Stood) {
			t.Errorf("%s had fence %d and is %+v", l.ID, before, l)
		}
		fences[l.ID] = l.Fence
		return len(fences)
	}
	for _, most := range []int{claims / 4, claims / 2, claims} {
		alive, dead := context.WithCancel(t.Context()) // a client asks for a minute otherwise
		var asking sync.WaitGroup
		for first := range 4 {
			asking.Go(func() {
				for i := first; i < claims; i += 4 {
					l, err := m.client.Acquire(alive, request(i))
					if err != nil {
						return // the daemon is dead
					}
					if answered(l) == most {
						_ = m.daemon.Process.Signal(syscall.SIGKILL)
					}
				}
			})
		}
		_ = m.daemon.Wait() // it was killed
		dead()
		asking.Wait()
		m.serve()
	}
	for i := range claims {
		l, err := m.client.Acquire(t.Context(), request(i))
		if err != nil {
			t.Fatal(err)
		}
		answered(l)
	}
	all, err := m.client.Leases(t.Context())
	if err != nil || len(all.Leases) != claims || len(all.Waiting) != 0 {
		t.Fatalf("%d leases stand and %d requests wait, %v", len(all.Leases), len(all.Waiting), err)
	}
	for _, l := range all.Leases {
		if len(l.Parts) != 2 || l.Parts[0].Memory != 10 || l.Parts[1].Memory != 20 || len(l.Scope) != 1 {
			t.Errorf("%+v", l)
		}
		if _, err := m.client.Release(t.Context(), l.ID, fences[l.ID]); err != nil {
			t.Errorf("release %s by the fence that was answered: %v", l.ID, err)
		}
	}
}

// A GPU that is full because it is leased is CRITICAL, and grants nothing to those who
// queue. What another scheduler has admitted still gets the rest of it.
func TestExactLeaseOfTheRestOfAFullDevice(t *testing.T) {
	m := emptyMachine(t)
	m.daemon = exec.Command("berth", "serve", "--devices", "sim:rtx-4060", "--listen", "", "--state-dir", m.path("state"))
	m.daemon.Env = append(m.env, "NOTIFY_SOCKET="+m.path("n"), "BERTH_GPU_MONITOR_INTERVAL=100ms", "BERTH_GPU_MEMORY_RESERVE_MB=0")
	m.ready()
	available := func() api.DeviceAvailable {
		all, err := m.client.Available(t.Context())
		if err != nil || len(all.GPUs) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all.GPUs[0]
	}
	rest := gpu.MiB(100)
	most, uuid := available().Available-rest, available().GPU
	g := m.start(nil, "berth", "exec", "--memory", fmt.Sprint(int64(most))+"MiB", "--timeout", "0", "--", m.program("filler"))
	if g == nil {
		t.Fatal(m.said)
	}
	m.tell(g, "use", uuid, fmt.Sprint(int64(most)))
	for critical := false; !critical; {
		s, err := m.client.Status(t.Context(), uuid)
		if err != nil {
			t.Fatal(err)
		}
		critical = s.State == gpu.Critical && available().Available == 0 // the ledger knows too
	}
	left := func() gpu.MiB { // by the sum: a device that is CRITICAL has nothing available
		a := available()
		return a.Limit - a.Reserve - a.Leased - a.Foreign
	}
	if got := left(); got != rest {
		t.Fatalf("%s is left, want %s", got.Exact(), rest.Exact())
	}
	if l, err := m.client.Acquire(t.Context(), api.LeaseRequest{ID: "queues", Memory: 1, Timeout: gpu.Some(0.0)}); err == nil {
		t.Errorf("an ordinary request got %+v", l)
	}
	ask := func(id string, memory gpu.MiB) (api.Lease, error) {
		return m.client.Acquire(t.Context(), api.LeaseRequest{ID: id, Admitted: true, Parts: []api.LeaseShare{{GPU: uuid, Memory: memory, Slots: 1}}})
	}
	problem := (*api.Problem)(nil)
	if _, err := ask("more", rest+1); !errors.As(err, &problem) || problem.Code != "insufficient_memory" {
		t.Errorf("more than is left: %v", err)
	}
	if l, err := ask("rest", rest); err != nil || l.Parts[0].Memory != rest {
		t.Errorf("the rest: %+v, %v", l, err)
	}
	if got := left(); got != 0 {
		t.Errorf("%s is left", got.Exact())
	}
}
