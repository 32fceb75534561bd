package daemon

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

const oneStray = `
devices: 1
timeline:
  - {at: 5s, device: 0, process: {pid: 5000001, name: stray, memory_mb: 300, load: 40}}
`

// A simulated process under no lease is listed and told of as a real one is,
// and ended where the policy says so.
func TestSimulatedProcessesAreStrays(t *testing.T) {
	p := newPlace(t, scenario(t, oneStray))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := p.open(t, ctx)
		c := d.inside(t)
		var running parts
		running.run("monitor", func() { _ = d.monitor.Run(ctx) })
		running.run("watchdog", func() { d.watchdog.Run(ctx) })
		strays := func() api.Strays {
			t.Helper()
			time.Sleep(10 * time.Second) // simulated
			all, err := c.Orphans(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		want := api.Strays{Orphans: []api.Stray{}, Foreign: []api.Stray{{GPU: "SIM-h200-0", PID: 5000001, Name: "stray", Memory: gpu.Some(gpu.MiB(300))}}}
		if diff := cmp.Diff(want, strays(), cmp.AllowUnexported(gpu.Opt[gpu.MiB]{})); diff != "" {
			t.Error(diff)
		}
		if err := d.settings.Change(ctx, access.Daemon(), []byte(`{"foreign": "kill"}`)); err != nil {
			t.Fatal(err)
		}
		if left := strays(); len(left.Foreign) != 0 {
			t.Errorf("it still runs: %+v", left)
		}
		var told []string
		kept, _ := d.events.Kept(0)
		for _, e := range kept {
			if e.Code == gpu.EventForeignUse {
				told = append(told, e.Text)
			}
		}
		if text := strings.Join(told, "\n"); text != "Process 5000001 (stray) uses 300 MiB of GPU 0 under no lease\n"+
			"Process 5000001 (stray) was ended: it used 300 MiB of GPU 0 under no lease, and gpu.foreign is kill" {
			t.Errorf("told\n%s", text)
		}
		cancel()
		running.wait(time.Minute)
	})
}
