package main

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// A daemon is killed while exact requests are on their way, so that some of their
// leases are granted and nobody has the answer. The same requests again get the same
// leases, and each one once.
func TestExactLeasesOutliveTheDaemon(t *testing.T) {
	m := newMachine(t, 1)
	const claims = 40
	request := func(i int) api.LeaseRequest {
		return api.LeaseRequest{
			ID: fmt.Sprint("claim", i), Admitted: true, Scope: []string{fmt.Sprint("pod", i)},
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
		var asking sync.WaitGroup
		for first := range 4 {
			asking.Go(func() {
				for i := first; i < claims; i += 4 {
					l, err := m.client.Acquire(t.Context(), request(i))
					if err != nil {
						return // the daemon is dead
					}
					if answered(l) == most {
						_ = m.daemon.Process.Signal(syscall.SIGKILL)
					}
				}
			})
		}
		asking.Wait()
		_ = m.daemon.Wait()
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
