package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
)

// A daemon that is killed at any step of parking or resuming leaves a program that the
// next one brings to where the book has it. Then everything works as before.
func TestKilledWhileParking(t *testing.T) {
	for _, step := range move.Steps() {
		for _, when := range []move.When{move.Before, move.During, move.After} {
			t.Run(fmt.Sprint(when, " ", step), func(t *testing.T) {
				t.Parallel()
				l := newLot(t, fmt.Sprintf("%s:%s:%s", step, when, move.KillDaemon))
				if step == move.Lock || step == move.Checkpoint {
					l.parks(false)
				} else {
					l.parks(true)
					l.expect("parked", 0)
					l.resumes(false)
				}
				_ = l.daemon.Wait() // it was killed
				l.serve("")
				l.expect("active", lotMemory)
				l.parks(true)
				l.expect("parked", 0)
				l.resumes(true)
				l.expect("active", lotMemory)
			})
		}
	}
}

const (
	lotMemory = 5000 // MiB of the program
	lotDevice = "SIM-rtx-4060-0"
)

// lot is a daemon with a simulated GPU, and a program on it under a lease.
type lot struct {
	*machine
	id string
}

// newLot starts a daemon in which something goes wrong, and a program under it.
func newLot(t *testing.T, fault string) *lot {
	l := &lot{machine: emptyMachine(t)}
	card := "devices: rtx-4060\nspeed: 20\n"
	if err := os.WriteFile(l.path("card.yaml"), []byte(card), 0o600); err != nil {
		t.Fatal(err)
	}
	l.serve(fault)
	g := l.start(nil, "berth", "exec", "--name", "parker", "--memory", fmt.Sprint(lotMemory)+"MiB", "--timeout", "0", "--", l.program("parker"))
	if g == nil {
		t.Fatal(l.said)
	}
	l.tell(g, "use", lotDevice, fmt.Sprint(lotMemory))
	leases, err := l.client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("%+v, %v", leases, err)
	}
	l.id = leases.Leases[0].ID
	return l
}

// serve starts a daemon and waits until it is ready.
func (l *lot) serve(fault string) {
	l.daemon = exec.Command("berth", "serve", "--devices", "sim:"+l.path("card.yaml"), "--listen", "", "--state-dir", l.path("state"))
	l.daemon.Env = append(l.env, "NOTIFY_SOCKET="+l.path("n"), "BERTH_GPU_MONITOR_INTERVAL=100ms", move.FaultVariable+"="+fault)
	l.ready()
}

func (l *lot) parks(well bool) {
	l.t.Helper()
	if _, err := l.client.Park(l.t.Context(), l.id, api.Park{}); (err == nil) != well {
		l.t.Fatalf("park: %v; want it to work: %v", err, well)
	}
}

func (l *lot) resumes(well bool) {
	l.t.Helper()
	if _, err := l.client.Resume(l.t.Context(), l.id, api.Resume{}); (err == nil) != well {
		l.t.Fatalf("resume: %v; want it to work: %v", err, well)
	}
}

// expect waits until the lease is in a state with nothing under way, and the driver
// shows so much memory of its program.
func (l *lot) expect(state string, memory gpu.MiB) {
	l.t.Helper()
	for {
		held, err := l.client.Lease(l.t.Context(), l.id)
		if err != nil {
			l.t.Fatal(err)
		}
		all, err := l.client.StatusAll(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		var has gpu.MiB
		for _, p := range all.GPUs[0].Sample.Processes {
			has += p.Memory.Or(0)
		}
		locked, _ := filepath.Glob(l.path(filepath.Join("guests", lotDevice, "*.parked")))
		if held.State == state && has == memory && (len(locked) > 0) == (state == "parked") {
			return
		}
	}
}
