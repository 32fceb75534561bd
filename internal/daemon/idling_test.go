package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// A lease that may be parked is idle when its processes have not used their device
// for a while, and in use again when they do. Nobody looks at other leases.
func TestIdleLeases(t *testing.T) {
	serve := fmt.Sprintf("pid: 5000001, name: serve, memory_mb: 3000, uid: %d, cgroup: /system.slice/serve.service", os.Getuid())
	p := newPlace(t, scenario(t, fmt.Sprintf(`
devices: 1xh200
timeline:
  - {at: 0s, device: 0, process: {%[1]s, load: 40}}
  - {at: 60s, device: 0, process: {%[1]s}}
  - {at: 200s, device: 0, process: {%[1]s, load: 5}}
  - {at: 0s, device: 0, process: {pid: 5000002, name: other, memory_mb: 3000, uid: %[2]d, cgroup: /system.slice/other.service}}
`, serve, os.Getuid())))
	p.flags["optimization.park_idle_after"], p.file = "30", filepath.Join(p.dir, "berth.yaml")
	if err := os.WriteFile(p.file, []byte("services: {serve: {parkable: true}, other: {}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		ctx, cancel := context.WithCancel(t.Context())
		go w.idle.Run(ctx)
		defer func() { cancel(); w.stop() }()
		leases := map[string]api.Lease{}
		for _, name := range []string{"serve", "other"} {
			l, err := w.Acquire(ctx, api.LeaseRequest{ID: name, Memory: 4096, Unit: name + ".service", Binding: "named", Service: name})
			if err != nil {
				t.Fatal(err)
			}
			leases[name] = l
		}
		told := func() (list []bool) {
			events, _ := w.events.Kept(0)
			for _, e := range events {
				if e.Code == gpu.EventIdle && e.Lease == "serve" {
					list = append(list, e.Data["idle"] == true)
				} else if e.Code == gpu.EventIdle {
					t.Errorf("told %+v", e)
				}
			}
			return list
		}
		fence := leases["serve"].Fence
		time.Sleep(80*time.Second + time.Millisecond)
		if f, idle := w.idle.Of(fence); !idle || f.Memory != 3000 || f.Utilization != 0 || len(told()) != 0 {
			t.Errorf("not in use for 20 s, it has %+v, %v, and %v was told", f, idle, told())
		}
		time.Sleep(60 * time.Second)
		if f, idle := w.idle.Of(fence); !idle || time.Since(f.Since) < 70*time.Second || fmt.Sprint(told()) != "[true]" {
			t.Errorf("not in use for 80 s, it is idle since %v, and %v was told", f.Since, told())
		}
		time.Sleep(70 * time.Second)
		if f, idle := w.idle.Of(fence); idle || fmt.Sprint(told()) != "[true false]" {
			t.Errorf("in use again, it has %+v, and %v was told", f, told())
		}
		if _, known := w.idle.Of(leases["other"].Fence); known {
			t.Error("a lease that must not be parked is watched")
		}
	})
}
