package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func (d *fakeDaemon) leaseRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/gpu/memory/available", func(w http.ResponseWriter, _ *http.Request) { answer(w, fakeAvailable()) })
	mux.HandleFunc("GET /api/leases", func(w http.ResponseWriter, _ *http.Request) { answer(w, fakeLeases()) })
	mux.HandleFunc("POST /api/gpu/memory/allocate", fakeAllocate)
	mux.HandleFunc("DELETE /api/leases/{id}", fakeRelease)
	mux.HandleFunc("POST /api/leases/{id}/renew", fakeRenew)
	mux.HandleFunc("POST /api/leases/adopt", fakeAdopt)
	mux.HandleFunc("POST /api/leases/explain", func(w http.ResponseWriter, r *http.Request) {
		var asked api.LeaseRequest
		_ = json.NewDecoder(r.Body).Decode(&asked)
		answer(w, fakeExplanation(asked))
	})
	mux.HandleFunc("GET /api/leases/{id}/explain", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != "big" {
			refuse(w, unknownLease(r.PathValue("id")))
			return
		}
		e := fakeExplanation(api.LeaseRequest{Memory: 100 << 10})
		e.Position, e.Behind, e.Text = 2, []string{"first"}, e.Text+" It is number 2 in the queue."
		answer(w, e)
	})
}

func fakeAvailable() api.Available {
	return api.Available{GPUs: []api.DeviceAvailable{
		{GPU: "GPU-0", Available: 20 << 10, Leased: 120 << 10, Foreign: 600, Total: 143771},
		{GPU: "GPU-1", Available: 30 << 10, Leased: 16 << 10, Foreign: 615, Total: 49140},
		{GPU: "GPU-2", Foreign: 8100, Total: 8188, Reason: "memory is at 99 %"},
	}}
}

// fakeLeases is a lease of every kind, and two requests that wait.
func fakeLeases() api.Leases {
	expires, deadline := testNow.Add(42*time.Second), testNow.Add(18*time.Second)
	part := func(uuid string, memory gpu.MiB, slots int, measured ...gpu.MiB) api.LeasePart {
		p := api.LeasePart{GPU: uuid, Memory: memory, Slots: slots}
		if len(measured) > 0 {
			p.Measured = gpu.Some(measured[0])
		}
		return p
	}
	return api.Leases{
		Leases: []api.Lease{
			{ID: "embedder", Fence: 7, State: "active", Binding: "named", Granted: testNow.Add(-50 * time.Hour), EnforcedBy: "none",
				Holder: api.Holder{Service: "embedder", Name: "berth", User: "root"}, Parts: []api.LeasePart{part("GPU-0", 4096, 0, 3210)}},
			{ID: "lease-ab12cd34ef", Fence: 8, State: "active", Binding: "process", Granted: testNow.Add(-12 * time.Minute), EnforcedBy: "framework",
				Holder: api.Holder{Name: "python3 \x1b[31m", User: "ann", PID: 4711},
				Parts:  []api.LeasePart{part("GPU-0", 80<<10, 1, 81<<10), part("GPU-1", 80<<10, 1)}},
			{ID: "embedder-2", Fence: 9, State: "parked", Binding: "ttl", Granted: testNow.Add(-18 * time.Second), EnforcedBy: "watchdog", TTL: 60, Expires: &expires,
				Holder: api.Holder{Service: "embedder", User: "ann"}, Parts: []api.LeasePart{part("GPU-0", 1024, 1)}},
			{ID: "lost", Fence: 10, State: "active", Binding: "named", Granted: testNow, EnforcedBy: "none",
				Parts: []api.LeasePart{part("GPU-gone", 0, 2)}},
		},
		Waiting: []api.Waiting{
			{ID: "first", Position: 1, Since: testNow.Add(-20 * time.Second), Holder: api.Holder{User: "bob"}, GPUs: 1, Slots: 1, Priority: 5},
			{ID: "big", Position: 2, Since: testNow.Add(-12 * time.Second), Deadline: &deadline,
				Holder: api.Holder{Service: "trainer", User: "ann"}, GPUs: 2, Memory: 100 << 10, Slots: 1},
		},
	}
}

// fakeAllocate takes whatever fits into 20 GiB under a name that is free.
func fakeAllocate(w http.ResponseWriter, r *http.Request) {
	var asked api.Allocate
	_ = json.NewDecoder(r.Body).Decode(&asked)
	for _, l := range fakeLeases().Leases {
		if l.ID == asked.ID {
			refuse(w, api.Problem{Status: 409, Code: "duplicate_allocation", Detail: "Ask for " + asked.ID + ": the id is in use."})
			return
		}
	}
	if asked.Memory > 20<<10 {
		refuse(w, api.Problem{Status: 409, Code: "insufficient_memory", Detail: "No device fits.", Extra: map[string]any{"possible": asked.Memory <= 139<<10}})
		return
	}
	l := api.Lease{ID: asked.ID, Fence: 11, Binding: "named", Granted: testNow, EnforcedBy: "none",
		Holder: api.Holder{Service: asked.Service}, Parts: []api.LeasePart{{GPU: "GPU-1", Memory: asked.Memory}}}
	if seconds, given := asked.TTL.Get(); given {
		expires := testNow.Add(time.Duration(seconds * float64(time.Second)))
		l.Expires, l.Note = &expires, "It was raised to the minimum of its service."
	}
	answer(w, l)
}

func fakeRelease(w http.ResponseWriter, r *http.Request) {
	for _, l := range fakeLeases().Leases {
		if l.ID != r.PathValue("id") {
			continue
		}
		if fence := r.URL.Query().Get("fence"); fence != "" && fence != fmt.Sprint(l.Fence) {
			refuse(w, api.Problem{Status: 409, Code: "stale_fence", Detail: "The lease this fence belonged to has ended."})
			return
		}
		answer(w, api.Ended{ID: l.ID, Lease: &l})
		return
	}
	if r.PathValue("id") == "big" {
		answer(w, api.Ended{ID: "big"})
		return
	}
	refuse(w, unknownLease(r.PathValue("id")))
}

func unknownLease(id string) api.Problem {
	return api.Problem{Status: 404, Code: "unknown_allocation", Detail: fmt.Sprintf("There is no lease %q.", id)}
}

func fakeRenew(w http.ResponseWriter, r *http.Request) {
	var asked api.Renew
	_ = json.NewDecoder(r.Body).Decode(&asked)
	l := fakeLeases().Leases[2]
	if r.PathValue("id") != l.ID {
		refuse(w, unknownLease(r.PathValue("id")))
		return
	}
	expires := testNow.Add(time.Duration(asked.TTL.Or(l.TTL) * float64(time.Second)))
	l.Expires = &expires
	answer(w, l)
}

func fakeAdopt(w http.ResponseWriter, r *http.Request) {
	var asked api.Adopt
	_ = json.NewDecoder(r.Body).Decode(&asked)
	answer(w, api.Lease{ID: "adopted-1", Fence: 12, Binding: "process", Holder: api.Holder{Service: asked.Service, PID: asked.PID},
		Parts: []api.LeasePart{{GPU: "GPU-0", Memory: max(asked.Memory, 1)}, {GPU: "GPU-1", Memory: 2048}}})
}

// fakeExplanation explains by the memory alone: up to 20 GiB fits, up to 139
// GiB could.
func fakeExplanation(asked api.LeaseRequest) api.Explanation {
	if asked.Memory <= 20<<10 {
		return api.Explanation{Fits: true, Possible: true, Text: "It would be granted now."}
	}
	e := api.Explanation{LargestNow: 20 << 10, LargestEver: 139 << 10, Possible: asked.Memory <= 139<<10}
	e.Hint = "wait, or ask for at most 20 GiB, which is free now"
	e.Text = fmt.Sprintf("Place %s and 1 slot: no device fits (%s).", asked.Memory, e.Hint)
	soon := testNow.Add(3 * time.Minute)
	small := fmt.Sprintf("needs %s and could never have more than 47 GiB", asked.Memory)
	e.Devices = []api.Obstacle{
		{GPU: "GPU-0", Code: "no_memory", Text: fmt.Sprintf("needs %s and has 20 GiB", asked.Memory), Holders: []api.HolderUntil{
			{Lease: "embedder", Holder: api.Holder{Service: "embedder", User: "root"}, Memory: 4096, Until: &soon},
			{Lease: "lease-ab12cd34ef", Holder: api.Holder{Name: "python3 \x1b[31m", User: "ann"}, Memory: 81 << 10, Slots: 1},
		}},
		{GPU: "GPU-1", Code: "too_small", Text: small, Holders: []api.HolderUntil{{Lease: "lease-ab12cd34ef"}}},
		{GPU: "GPU-2", Code: "too_small", Text: small},
		{GPU: "GPU-3", Code: "closed", Text: "nothing is granted here: the device did not answer in time"},
	}
	return e
}
