package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// belowUser enters the scope of a system service: a user may have units of any name below the
// service manager user@UID.service. The attacker's program there takes more memory than the
// lease of the service has, and the daemon ends whoever uses too much. The referee makes the
// control group in which systemd-run --user would start the attacker's program.
func belowUser(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{guests: true, config: "gpu: {monitor_interval: 0.2, over_limit: stop}"})
	if err != nil {
		return v, err
	}
	base := fmt.Sprintf("berth-hostile-%d", os.Getpid())
	unit := base + "-unit.service"
	user := fmt.Sprintf("%s.slice/user@%d.service", base, attacker)
	var service *actor
	for _, each := range []struct {
		uid, megabytes int
		groups         []string // each inside the one before
	}{
		{victim, 100, []string{unit}},
		{attacker, 50_000, []string{base + ".slice", user, user + "/" + unit}},
	} {
		one, err := a.act(ctx, each.uid, 0, "idle", "", nil)
		if err != nil {
			return v, err
		}
		for _, name := range each.groups {
			folder, err := enclose(name, one.pid())
			if err != nil {
				v.skipped = "no control group can be made here: " + err.Error()
				return v, nil
			}
			defer os.Remove(folder)
		}
		defer one.stop()
		if service == nil {
			service = one
			if err := d.root(ctx, "POST", "/api/leases", fmt.Sprintf(`{"id":"service","memory_mb":1000,"slots":0,"gpu":"0","binding":"named","scope":[%q]}`, unit), nil); err != nil {
				return v, err
			}
		}
		if err := d.guest("SIM-h200-0", one.pid(), each.uid, each.megabytes); err != nil {
			return v, err
		}
	}
	eventually(a.lasting(1500*time.Millisecond, 10*time.Second), func() bool { return !service.alive() })
	if !service.alive() {
		v.gain("the daemon ended a process of the service")
	}
	leases, err := d.leases(ctx)
	if err != nil {
		return v, err
	}
	used := gpu.MiB(0)
	for _, part := range leases["service"].Parts {
		used += part.Measured.Or(0)
	}
	if used > 1000 {
		v.gain("the lease of the service is charged for the attacker's memory: %d MiB", used)
	}
	v.noting("the lease of the service is charged for %d MiB", used)
	return v, nil
}
