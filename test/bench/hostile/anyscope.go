package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
)

// anyScope uses an operator's token over TCP to name control groups of the system
// as the scope of a lease that ends after a second, with all that is in them. Then
// it looks whether the audit log says who chose a scope that is allowed.
func anyScope(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {monitor_interval: 0.2}\noptimization: {deallocation_timeout: 1}"})
	if err != nil {
		return v, err
	}
	var token api.NewToken
	if err := d.root(ctx, "POST", "/api/tokens", `{"name":"driver","role":"operator"}`, &token); err != nil {
		return v, err
	}
	base := fmt.Sprintf("berth-hostile-%d", os.Getpid())
	names := []string{base + ".slice", base + ".service"}
	var bystanders []*actor
	for _, name := range names {
		one, err := a.act(ctx, 0, 0, "idle", "", nil)
		if err != nil {
			return v, err
		}
		folder, err := enclose(name, one.pid())
		if err != nil {
			v.skipped = "no control group can be made here: " + err.Error()
			return v, nil
		}
		defer func() {
			one.kill()
			_ = one.wait() // it was killed
			_ = os.Remove(folder)
		}()
		bystanders = append(bystanders, one)
	}
	accepted := false
	for i, name := range append(names, base, base+".scope", "system.slice", "init.scope", "user@0.service", "session-1.scope") {
		got, err := a.calls(ctx, attacker, d.tcp, call{Method: "POST", Path: "/api/leases", Token: token.Secret,
			Body: fmt.Sprintf(`{"id":"scope-%d","memory_mb":10,"slots":0,"binding":"named","time_limit_seconds":1,"scope":[%q]}`, i, name)})
		if err != nil {
			return v, err
		}
		if got[0].Status/100 == 2 && name != base+".scope" { // there is none of that name, and its twin must not be taken for it
			v.gain("a lease for the scope %s", name)
		}
		accepted = accepted || got[0].Status/100 == 2
	}
	if accepted && !eventually(time.Minute, func() bool {
		leases, err := d.leases(ctx)
		return err == nil && len(leases) == 0
	}) {
		return v, errors.New("the time limits did not end the leases")
	}
	for i, one := range bystanders {
		if !one.alive() {
			v.gain("the daemon ended what was in %s", names[i])
		}
	}
	return v, audited(ctx, a, d, &v, token.Secret)
}

// audited fails if the audit log does not say who chose a scope.
func audited(ctx context.Context, a *arena, d *daemon, v *verdict, token string) error {
	const pod = "pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"
	got, err := a.calls(ctx, attacker, d.tcp, call{Method: "POST", Path: "/api/leases", Token: token,
		Body: fmt.Sprintf(`{"id":"claim","memory_mb":10,"slots":0,"binding":"named","scope":[%q]}`, pod)})
	if err != nil || got[0].Status != 201 {
		return fmt.Errorf("a lease for a pod: %v %w", got, err)
	}
	var log api.AuditLog
	if err := d.root(ctx, "GET", "/api/audit", "", &log); err != nil {
		return err
	}
	if !slices.ContainsFunc(log.Entries, func(e api.AuditEntry) bool {
		return e.Who.Token == "driver" && e.Object.ID == "claim" && strings.Contains(e.After["scope"], pod)
	}) {
		v.gain("the audit log does not say who chose the scope of a lease")
	}
	return nil
}

// enclose makes a control group and moves a process there.
func enclose(name string, pid int) (folder string, err error) {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/pids"} {
		if _, missing := os.Stat(filepath.Join(root, "cgroup.procs")); missing != nil {
			err = errors.Join(err, missing)
			continue
		}
		folder = filepath.Join(root, name)
		failed := os.Mkdir(folder, 0o755)
		if failed == nil {
			failed = os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		}
		if failed == nil {
			return folder, nil
		}
		_ = os.Remove(folder)
		err = errors.Join(err, failed)
	}
	return "", err
}
