package world

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
)

// pod leases for a pod, as the driver of a cluster does: exactly, with the control group of
// the pod as its scope. The pod ends when its process does, and then its lease is released.
func (w *World) pod() {
	id, c := w.caller(olga)
	number := w.count.operations
	scope := fmt.Sprintf("pod%08d-0000-4000-8000-000000000000", number)
	r := api.LeaseRequest{
		ID: fmt.Sprintf("pod-%d", number), Binding: "named", Scope: []string{scope}, Admitted: true, Timeout: gpu.Some(0.0),
		Parts: []api.LeaseShare{{GPU: w.cards[w.intn(4)].about.UUID, Memory: gpu.MiB(1+w.intn(20)) << 10, Slots: w.intn(2)}},
	}
	p := w.promise("pod", olga, r.ID, id)
	p.binding = "named"
	go func() {
		defer w.processes.end(id, 0)
		w.ask(p, func(ctx context.Context) (api.Lease, error) { return c.Acquire(ctx, r) })
		if !p.stands() {
			return
		}
		inside := w.processes.begin(proc{uid: 65534, parent: 1, name: "pod", cgroup: "/kubepods.slice/" + scope, memory: map[string]gpu.MiB{r.Parts[0].GPU: r.Parts[0].Memory / 2}})
		w.live(inside, 30*time.Minute)
		w.processes.end(inside, process.Kill)
		for range 100 { // kubelet asks until it is told
			err := w.asking("release a pod", 30*time.Minute, func(ctx context.Context) error {
				w.meant(p, "the pod is deleted")
				_, err := c.Release(ctx, p.id, p.fence())
				return err
			})
			if problem := (*api.Problem)(nil); err == nil || asProblem(err, &problem) && problem.Status < 500 {
				p.set(gone)
				return
			}
			time.Sleep(5 * time.Second)
		}
	}()
}

// token makes a token, uses it over TCP, and revokes it.
func (w *World) token() {
	id, root := w.caller(0)
	name := fmt.Sprintf("token-%d", w.intn(4))
	r := api.TokenRequest{Name: name, Role: []string{"viewer", "user", "operator"}[w.intn(3)], Replace: w.one(2)}
	if w.one(2) {
		r.As = nameOf(w.someone())
	}
	if w.one(2) {
		r.TTL = gpu.Some(float64(60 + w.intn(3600)))
	}
	go func() {
		defer w.processes.end(id, 0)
		var made api.NewToken
		if w.asking("make a token", 10*time.Minute, func(ctx context.Context) (err error) { made, err = root.CreateToken(ctx, r); return err }) != nil {
			return
		}
		w.reached("a token is made")
		far, err := client.New(client.Options{Token: made.Secret, Transport: &way{w: w, peer: access.Peer{Caller: access.Caller{Door: access.TCP}}, shaky: w.one(4)}})
		if err != nil {
			w.wrong("machine", "%v", err)
			return
		}
		var l api.Lease
		err = w.asking("lease with a token", longCall, func(ctx context.Context) (err error) {
			l, err = far.Acquire(ctx, api.LeaseRequest{Memory: 1 << 10, Slots: gpu.Some(0), TTL: gpu.Some(60.0), Timeout: gpu.Some(30.0)})
			return err
		})
		if err == nil && r.Role == "viewer" {
			w.wrong("roles", "a token of a viewer leases: %+v", l)
		}
		w.nap(5 * time.Minute)
		_ = w.asking("revoke a token", 10*time.Minute, func(ctx context.Context) error { _, err := root.RevokeToken(ctx, name); return err })
	}()
}

// frontDies kills the front, and starts another one.
func (w *World) frontDies() {
	w.mu.Lock()
	f := w.front
	w.mu.Unlock()
	f.stop()
	w.processes.end(f.id, process.Kill)
	w.beginFront()
}

// hear follows the events of whichever daemon lives, as root does, and counts them.
func (w *World) hear() {
	ctx, stop := context.WithCancel(context.Background())
	w.mu.Lock()
	w.stopHear = stop
	w.mu.Unlock()
	id := w.processes.begin(proc{uid: 0, parent: 1, name: "berth"})
	defer w.processes.end(id, 0)
	c := w.client(0, id, false)
	for ctx.Err() == nil {
		for e, err := range c.EventsWhere(ctx, client.EventQuery{Follow: true}) {
			if err != nil {
				break
			}
			w.reached("told: " + string(e.Code))
			if e.Code == gpu.EventInternalFault {
				w.wrong("fault", "%s", e.Text)
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// stopHearing ends hear. A process that it began later ends with the machine.
func (w *World) stopHearing() {
	w.mu.Lock()
	stop := w.stopHear
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}
