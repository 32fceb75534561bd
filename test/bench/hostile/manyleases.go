package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
)

// many lets the attacker have many of something, and measures what it costs others that they
// are there, while the attacker looks at the leases again and again.
func (a *arena) many(ctx context.Context, devices, kind string, have func(*daemon) error) (v verdict, err error) {
	d, err := a.serve(ctx, setup{devices: devices, guests: true, config: "gpu: {max_pipelines: 2000}"})
	if err != nil {
		return v, err
	}
	quiet, err := d.besideLoad(ctx, 1)
	if err != nil {
		return v, err
	}
	if err := have(d); err != nil {
		return v, err
	}
	pause(ctx, a.lasting(500*time.Millisecond, 3*time.Second)) // until the daemon has sampled
	loud, err := d.besideCalls(ctx, 1, call{Method: "GET", Path: "/api/leases"})
	if err != nil || !runs(d.pid()) {
		return v, cmp.Or(err, d.survives(&v, kind, quiet, loud))
	}
	busy, err := d.idle(a.lasting(500*time.Millisecond, 5*time.Second))
	v.noting("%s; %.0f %% of a processor while nobody calls", kind, 100*busy)
	if busy > queueIdleCPU && !a.small {
		v.gain("the daemon uses %.0f %% of a processor beside %s while nobody calls", 100*busy, kind)
	}
	return v, cmp.Or(err, d.survives(&v, kind, quiet, loud))
}

// deadHolders starts processes of the attacker that hold leases, makes their children use the
// device, and kills the processes: their leases stay.
func (d *daemon) deadHolders(ctx context.Context, asked askHolders) error {
	var pairs []pair
	if _, err := d.arena.act(ctx, attacker, 0, "holders", asked, &pairs); err != nil {
		return err
	}
	for _, p := range pairs {
		for _, child := range append(p.Others, p.Child) {
			if err := d.guest("SIM-h200-0", child, attacker, 1); err != nil {
				return err
			}
		}
	}
	want := max(asked.Count, asked.Leases)
	var unseen error
	if !eventually(time.Minute, func() bool { unseen = d.have(ctx, want, hasUser); return unseen == nil }) {
		return unseen
	}
	for _, p := range pairs {
		_ = syscall.Kill(p.Holder, syscall.SIGKILL)
	}
	return d.have(ctx, want, stands)
}

// deadLaunchers starts launchers that end before their workers do.
func deadLaunchers(ctx context.Context, a *arena) (verdict, error) {
	n := a.size(100, 1000)
	return a.many(ctx, "sim:1", fmt.Sprintf("%d launchers that have ended", n), func(d *daemon) error {
		return d.deadHolders(ctx, askHolders{Door: d.socket, Count: n})
	})
}

// deadOwner takes leases on eight devices in one process, which ends before its children.
func deadOwner(ctx context.Context, a *arena) (verdict, error) {
	n := a.size(125, 1000)
	return a.many(ctx, "sim:8", fmt.Sprintf("%d leases of a process that has ended", n), func(d *daemon) error {
		return d.deadHolders(ctx, askHolders{Door: d.socket, Count: 1, Leases: n, GPUs: 8, Children: 30})
	})
}

// manyParts starts a launcher with parts without memory, and paces it.
func manyParts(ctx context.Context, a *arena) (verdict, error) {
	n := a.size(100, 500)
	return a.many(ctx, "", fmt.Sprintf("%d parts of a launcher that is paced", n), func(d *daemon) error {
		launcher, err := a.act(ctx, attacker, 0, "idle", "", nil)
		if err != nil {
			return err
		}
		if err := d.guest("SIM-h200-0", launcher.pid(), attacker, 10); err != nil {
			return err
		}
		crowd := askHolders{Door: d.socket, Count: 1, Children: a.size(100, 300)} // the more processes, the longer is a look at all of them
		if _, err := a.act(ctx, attacker, 0, "holders", crowd, nil); err != nil {
			return err
		}
		const lease = `{"id":"%s","memory_mb":%d,"slots":0,"binding":"process","pid":%d,"parent":"%s"}`
		return d.takes(ctx, n, stands,
			call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(lease, "launcher", 100, launcher.pid(), "")},
			call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(lease, "part-$N", 0, launcher.pid(), "launcher"), Times: n},
			call{Method: "POST", Path: "/api/leases/launcher/pace", Body: `{"share":0.5}`})
	})
}

// manyParked parks leases by hand.
func manyParked(ctx context.Context, a *arena) (verdict, error) {
	n := a.size(100, 1000)
	return a.many(ctx, "", fmt.Sprintf("%d parked leases", n), func(d *daemon) error {
		return d.takes(ctx, n, parked,
			call{Method: "POST", Path: "/api/leases", Body: `{"id":"parked-$N","memory_mb":10,"slots":0,"gpu":"0","binding":"named"}`, Times: n},
			call{Method: "POST", Path: "/api/leases/parked-$N/park", Body: `{}`, Times: n})
	})
}

// takes makes calls as the attacker, after which most of so many leases must be as said.
func (d *daemon) takes(ctx context.Context, want int, is func(api.Lease) bool, calls ...call) error {
	var got []reply
	if err := d.arena.do(ctx, attacker, 0, "calls", askCalls{Door: d.socket, Side: 4, Calls: calls}, &got); err != nil {
		return err
	}
	if last := got[len(got)-1]; last.Status/100 != 2 {
		return fmt.Errorf("%s: %d %s", calls[len(calls)-1].Path, last.Status, cut(last.Body, 300))
	}
	return d.have(ctx, want, is)
}

// have returns an error unless most of so many leases are as said.
func (d *daemon) have(ctx context.Context, want int, is func(api.Lease) bool) error {
	var all api.Leases
	if err := d.rootWithin(ctx, time.Minute, "GET", "/api/leases", "", &all); err != nil {
		return err
	}
	stand := len(all.Leases)
	if have := len(slices.DeleteFunc(all.Leases, func(l api.Lease) bool { return !is(l) })); have < want*9/10 {
		return fmt.Errorf("%d leases stand, and %d of them are as wanted, of %d", stand, have, want)
	}
	return nil
}

func stands(l api.Lease) bool  { return l.State == "active" }
func parked(l api.Lease) bool  { return l.State == "parked" }
func hasUser(l api.Lease) bool { return len(l.Processes) > 0 }
