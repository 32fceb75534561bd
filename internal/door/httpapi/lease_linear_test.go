package httpapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

const (
	linearIDs     = 6
	linearDevices = 2
)

// call is a request to the API, as the sequential specification sees it.
type call struct {
	op     string // allocate, deallocate, release, renew or look
	id     int
	memory gpu.MiB
	gpu    int    // -1: any
	fence  uint64 // 0: whichever there is
}

// reply is what was answered: a code, and the lease if there is one.
type reply struct {
	code  string
	fence uint64
	gpu   int
}

// shelf is everything that the specification knows: who holds what, and how far
// fences have got.
type shelf struct {
	fence  uint64
	leases [linearIDs]spot
}

type spot struct {
	fence  uint64 // 0: there is no lease
	gpu    int
	memory gpu.MiB
}

func (s shelf) left(device int, capacity gpu.MiB) gpu.MiB {
	for _, l := range s.leases {
		if l.fence != 0 && l.gpu == device {
			capacity -= l.memory
		}
	}
	return capacity
}

// step is the specification: whether an answer is right where this is the state
// of things, and what the state is afterwards.
func step(s shelf, c call, r reply, capacity gpu.MiB) (bool, shelf) {
	held := s.leases[c.id]
	fits := func(device int) bool {
		return (c.gpu < 0 || c.gpu == device) && s.left(device, capacity) >= c.memory
	}
	switch {
	case c.op == "allocate" && held.fence != 0:
		return r.code == "duplicate_allocation", s
	case c.op == "allocate" && r.code == "":
		right := r.fence > s.fence && fits(r.gpu)
		s.fence, s.leases[c.id] = r.fence, spot{r.fence, r.gpu, c.memory}
		return right, s
	case c.op == "allocate":
		return r.code == "insufficient_memory" && !fits(0) && !fits(1), s
	case held.fence == 0 && c.fence != 0 && c.fence <= s.fence, held.fence != 0 && c.fence != 0 && c.fence != held.fence:
		return r.code == "stale_fence", s
	case held.fence == 0:
		return r.code == "unknown_allocation", s
	case c.op == "deallocate" || c.op == "release":
		s.leases[c.id] = spot{}
	}
	return r.code == "" && r.fence == held.fence, s
}

func specification(capacity gpu.MiB) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return shelf{} },
		Step: func(state, input, output any) (bool, any) {
			return step(state.(shelf), input.(call), output.(reply), capacity)
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// make asks the API.
func (c call) make(d *door, devices []string) reply {
	name := fmt.Sprintf("job-%d", c.id)
	where := ""
	if c.gpu >= 0 {
		where = strconv.Itoa(c.gpu)
	}
	var method, path, body string
	switch c.op {
	case "allocate":
		method, path = "POST", "/api/gpu/memory/allocate"
		body = fmt.Sprintf(`{"allocation_id":%q,"memory_mb":%d,"gpu":%q,"ttl_seconds":600}`, name, c.memory, where)
	case "deallocate":
		method, path, body = "POST", "/api/gpu/memory/deallocate", fmt.Sprintf(`{"allocation_id":%q}`, name)
	case "release":
		method, path = "DELETE", fmt.Sprintf("/api/leases/%s?fence=%d", name, c.fence)
	case "renew":
		method, path, body = "POST", "/api/leases/"+name+"/renew", fmt.Sprintf(`{"fence":%d}`, c.fence)
	case "look":
		method, path = "GET", "/api/leases/"+name
	}
	w := d.ask(method, path, body)
	var answer struct {
		api.Lease
		Code  string     `json:"code"`
		Ended *api.Lease `json:"lease"` // of a release
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		return reply{code: err.Error()}
	}
	l := answer.Lease
	if answer.Ended != nil {
		l = *answer.Ended
	}
	r := reply{code: answer.Code, fence: l.Fence}
	if c.op == "allocate" && r.code == "" {
		r.gpu = slices.Index(devices, l.Parts[0].GPU)
	}
	return r
}

// Whatever clients do at the same time, there is an order in which one after
// the other would have got the same answers.
func TestLeasesAreLinearizable(t *testing.T) {
	const clients, calls = 6, 60
	d := open(t, "2xrtx-4060")
	var devices []string
	var capacity gpu.MiB
	for _, g := range decode[api.Available](t, d.ask("GET", "/api/gpu/memory/available", "")).GPUs {
		devices, capacity = append(devices, g.GPU), g.Available
	}
	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 7))
			var fences [linearIDs]uint64 // as this client last saw them
			for range calls {
				c := draw(random, capacity, fences)
				called := clock.Add(1)
				r := c.make(d, devices)
				returned := clock.Add(1)
				if r.fence != 0 {
					fences[c.id] = r.fence
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: c, Output: r, Call: called, Return: returned})
				mu.Unlock()
			}
		})
	}
	group.Wait()

	spec := specification(capacity)
	if result := porcupine.CheckOperationsTimeout(spec, history, 5*time.Minute); result != porcupine.Ok {
		t.Errorf("the history is %s", result)
	}
	codes := map[string]int{}
	for _, op := range history {
		codes[op.Input.(call).op+" "+op.Output.(reply).code]++
	}
	for _, want := range []string{"allocate ", "allocate duplicate_allocation", "allocate insufficient_memory", "deallocate ", "release stale_fence", "renew ", "look "} {
		if codes[want] == 0 {
			t.Errorf("nothing was answered with %q: %v", want, codes)
		}
	}
	// The specification is worth something only if it refuses what is wrong.
	for name, spoil := range map[string]func(*reply, call) bool{
		"a fence twice": func(r *reply, c call) bool { r.fence = 1; return c.op == "allocate" && r.code == "" },
		"a grant that never was": func(r *reply, c call) bool {
			ok := r.code == "insufficient_memory"
			*r = reply{"", 1 << 40, 0}
			return ok
		},
		"a release that did nothing": func(r *reply, c call) bool {
			ok := c.op == "deallocate" && r.code == ""
			r.code = "unknown_allocation"
			return ok
		},
	} {
		spoilt := slices.Clone(history)
		slices.SortFunc(spoilt, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for i := len(spoilt) / 2; i < len(spoilt); i++ {
			r := spoilt[i].Output.(reply)
			if spoil(&r, spoilt[i].Input.(call)) {
				spoilt[i].Output = r
				break
			}
		}
		if result := porcupine.CheckOperationsTimeout(spec, spoilt, 5*time.Minute); result != porcupine.Illegal {
			t.Errorf("a history with %s is %s", name, result)
		}
	}
}

// draw makes up a call. A third of a device is what most ask for, so that
// refusals are as common as grants.
func draw(random *rand.Rand, capacity gpu.MiB, fences [linearIDs]uint64) call {
	c := call{id: random.IntN(linearIDs), gpu: -1}
	switch n := random.IntN(10); {
	case n < 5:
		c.op, c.memory = "allocate", capacity/3+gpu.MiB(random.Int64N(int64(capacity/3)))
		if random.IntN(2) == 0 {
			c.gpu = random.IntN(linearDevices)
		}
	case n < 7:
		c.op = "deallocate"
	case n < 8:
		c.op, c.fence = "release", fences[c.id]
	case n < 9:
		c.op, c.fence = "renew", fences[c.id]
	default:
		c.op = "look"
	}
	return c
}
