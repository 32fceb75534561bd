package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// namespaces attacks from a PID namespace: the attacker sends PIDs that belong to
// other processes outside. Those are bystanders of the same user, which such a
// lease would end or keep.
func namespaces(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{guests: true, config: "gpu: {monitor_interval: 0.2, max_pipelines: 100}"})
	if err != nil {
		return v, err
	}
	bystander, err := a.act(ctx, attacker, 0, "idle", "", nil)
	if err != nil {
		return v, err
	}
	if err := d.guest("SIM-h200-0", bystander.pid(), attacker, 1000); err != nil {
		return v, err
	}
	time.Sleep(time.Second) // until the daemon has sampled it
	for _, door := range d.doors() {
		n := bystander.pid()
		var got []reply
		asked := askCalls{Door: door, Calls: []call{
			{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"id":"given","memory_mb":10,"slots":0,"binding":"process","pid":%d}`, n)},
			{Method: "POST", Path: "/api/leases/adopt", Body: fmt.Sprintf(`{"id":"adopted","pid":%d}`, n)},
			{Method: "POST", Path: "/api/leases", Body: `{"id":"bound","memory_mb":10,"slots":0,"binding":"process"}`},
			{Method: "POST", Path: "/api/leases/bound/bind", Body: fmt.Sprintf(`{"pid":%d}`, n)},
			{Method: "POST", Path: "/api/plans/run", Body: fmt.Sprintf(`{"plan":{"pipelines":[{"name":"p","slots":0,"memory_mb":1,"runs":[{"name":"planned","gpu":"SIM-h200-0"}]}]},"id":"planned","pid":%d}`, n)},
			{Method: "POST", Path: "/api/leases", Body: `{"id":"self","memory_mb":10,"slots":0,"binding":"process","pid":$PID}`},
		}}
		inside, err := a.act(ctx, attacker, syscall.CLONE_NEWPID, "calls", asked, &got)
		if err != nil {
			return v, err
		}
		leases, err := d.leases(ctx)
		if err != nil {
			return v, err
		}
		for id, l := range leases {
			if l.Binding == "process" && l.Holder.PID != inside.pid() {
				v.gain("lease %s is bound to process %d of the host, which is %d in no namespace of the caller, over %s", id, l.Holder.PID, n, door)
			}
		}
		inside.kill()
		eventually(5*time.Second, func() bool { return !inside.alive() })
		for id := range leases {
			_ = d.root(ctx, "DELETE", "/api/leases/"+id, "", nil) // the lease may have ended with its process
		}
	}
	return v, nil
}
