package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// strangers tries to do with another user's leases, over TCP, everything that
// only their holder may do.
func strangers(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {max_pipelines: 100}"})
	if err != nil {
		return v, err
	}
	var got []reply
	taking := []call{
		{Method: "POST", Path: "/api/leases", Body: `{"id":"named","memory_mb":10,"slots":0,"binding":"named"}`},
		{Method: "POST", Path: "/api/leases", Body: `{"id":"ttl","memory_mb":10,"slots":0,"ttl_seconds":600}`},
		{Method: "POST", Path: "/api/gpu/memory/allocate", Body: `{"allocation_id":"allocated","memory_mb":10}`},
		{Method: "POST", Path: "/api/leases", Body: `{"id":"process","memory_mb":10,"slots":0,"binding":"process","pid":$PID}`},
		{Method: "PUT", Path: "/api/batches/batch", Body: batchBody("batch", "running", "/victims", "")},
	}
	holder, err := a.act(ctx, victim, 0, "calls", askCalls{Door: d.tcp, Calls: taking}, &got)
	if err != nil {
		return v, err
	}
	defer holder.kill()
	before, err := d.leases(ctx)
	if err != nil {
		return v, err
	}
	if _, there := before["process"]; !there { // over TCP the daemon may not know the process
		if _, err := a.act(ctx, victim, 0, "calls", askCalls{Door: d.socket, Calls: taking[3:4]}, &got); err != nil {
			return v, err
		}
		if before, err = d.leases(ctx); err != nil {
			return v, err
		}
	}
	if len(before) < 2 {
		return v, fmt.Errorf("another user got no leases to attack: %v", got)
	}
	for _, door := range d.doors() {
		var asked []call
		whose := []string{"", fmt.Sprint(victim)} // ids are per user: as one's own, and as the other's
		for _, l := range before {
			for _, user := range whose {
				asked = append(asked,
					call{Method: "POST", Path: "/api/leases/" + l.ID + "/renew?user=" + user, Body: fmt.Sprintf(`{"fence":%d,"ttl_seconds":80000}`, l.Fence)},
					call{Method: "POST", Path: "/api/leases/" + l.ID + "/bind?user=" + user, Body: fmt.Sprintf(`{"fence":%d,"pid":$PID}`, l.Fence)},
					call{Method: "POST", Path: "/api/leases/" + l.ID + "/trim?user=" + user},
					call{Method: "POST", Path: "/api/leases/" + l.ID + "/park?user=" + user},
				)
			}
		}
		asked = append(asked, call{Method: "PUT", Path: "/api/batches/batch", Body: batchBody("batch", "failed", "/attackers", "e")})
		for _, l := range before {
			for _, user := range whose {
				asked = append(asked,
					call{Method: "DELETE", Path: fmt.Sprintf("/api/leases/%s?fence=%d&user=%s", l.ID, l.Fence, user)},
					call{Method: "DELETE", Path: "/api/leases/" + l.ID + "?user=" + user},
					call{Method: "POST", Path: "/api/gpu/memory/deallocate", Body: fmt.Sprintf(`{"allocation_id":%q,"user":%q}`, l.ID, user)},
				)
			}
		}
		// This checks in the middle too: a lease that is bound to the attacker's
		// process ends with that process.
		middle, err := a.act(ctx, attacker, 0, "calls", askCalls{Door: door, Calls: asked}, &got)
		if err != nil {
			return v, err
		}
		err = compareStrangers(ctx, d, &v, before, door)
		middle.kill()
		if err != nil {
			return v, err
		}
	}
	return v, nil
}

// compareStrangers compares another user's leases before and after the attack.
func compareStrangers(ctx context.Context, d *daemon, v *verdict, before map[string]api.Lease, door door) error {
	after, err := d.leases(ctx)
	if err != nil {
		return err
	}
	events, _, err := d.events(ctx)
	if err != nil {
		return err
	}
	for id, was := range before {
		is, stands := after[id]
		renewed := false
		for _, e := range events {
			renewed = renewed || e.Lease == id && e.Code == gpu.EventRenewed
			if e.Lease == id && (e.Code == gpu.EventReclaim || e.Code == gpu.EventBound) {
				v.gain("%s for lease %s of another user, over %s", e.Code, id, door)
			}
		}
		switch {
		case !stands || is.Fence != was.Fence || is.State != was.State:
			v.gain("the attacker ended or parked lease %s of another user, over %s", id, door)
		case renewed || is.Expires != nil && was.Expires != nil && is.Expires.Sub(*was.Expires) > time.Minute:
			v.gain("the attacker renewed lease %s of another user, over %s", id, door)
		case is.Holder.PID != was.Holder.PID:
			v.gain("the attacker bound lease %s of another user to process %d, over %s", id, is.Holder.PID, door)
		}
	}
	var all api.Batches
	if err := d.root(ctx, "GET", "/api/batches", "", &all); err != nil {
		return err
	}
	intact := func(b api.Batch) bool { return b.Output == "/victims" && b.Stage == "running" } // the attacker may have one of that id too
	if !slices.ContainsFunc(all.Batches, intact) {
		v.gain("the attacker overwrote the batch of another user, over %s", door)
	}
	for id := range before { // count each gain once
		if _, stands := after[id]; !stands {
			delete(before, id)
		}
	}
	return nil
}
