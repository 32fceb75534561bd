package main

import (
	"context"
	"strings"
)

// private calls a daemon that another user runs privately: its socket has mode
// 0600, and every process of the machine can reach its TCP port.
func private(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{uid: victim})
	if err != nil {
		return v, err
	}
	// Root of this machine is a guest there: the daemon cannot see where root's
	// processes live.
	if _, err := a.calls(ctx, victim, d.socket, call{Method: "POST", Path: "/api/leases", Body: `{"id":"zqlease","memory_mb":10,"slots":0,"binding":"named"}`}); err != nil {
		return v, err
	}
	for _, door := range d.doors() {
		got, err := a.calls(ctx, attacker, door,
			call{Method: "GET", Path: "/api/leases"},
			call{Method: "GET", Path: "/api/gpu/status/all"},
			call{Method: "GET", Path: "/metrics"},
			call{Method: "POST", Path: "/api/leases", Body: `{"id":"attackers","memory_mb":10,"slots":0,"binding":"named"}`},
			call{Method: "PUT", Path: "/api/gpu/config", Body: `{"foreign":"kill"}`, Times: 10, Finish: reset},
			call{Method: "DELETE", Path: "/api/leases/zqlease"},
		)
		if err != nil {
			return v, err
		}
		all := ""
		for _, each := range got {
			all += each.Body
		}
		if strings.Contains(all, "zqlease") {
			v.gain("the attacker can read the owner's leases, over %s", door)
		}
		if strings.Contains(all, "SIM-h200-0") {
			v.gain("the attacker can read the devices, over %s", door)
		}
		leases, err := d.leases(ctx)
		if err != nil {
			return v, err
		}
		if _, there := leases["attackers"]; there {
			v.gain("the attacker got a lease, over %s", door)
		}
		if _, there := leases["zqlease"]; !there {
			v.gain("the attacker released the owner's lease, over %s", door)
		}
		var config struct {
			Foreign string `json:"foreign"`
		}
		if err := d.root(ctx, "GET", "/api/gpu/config", "", &config); err != nil {
			return v, err
		}
		if config.Foreign != "show" {
			v.gain("foreign is %q, over %s", config.Foreign, door)
		}
	}
	return v, nil
}
