package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// container starts a program in a control group of the simulation, and returns
// when it has ended.
func (m *machine) container(group string) (id process.ID, gone <-chan struct{}) {
	m.t.Helper()
	cat := exec.Command("cat") // until its input ends
	in, err := cat.StdinPipe()
	if err == nil {
		err = cat.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cat.Wait() }()
	m.t.Cleanup(func() { _ = in.Close(); <-ended })
	m.useIn(group, cat.Process.Pid, "SIM-h200-1", 0) // says where it is, also before it uses anything
	if id, err = process.Proc().Identify(cat.Process.Pid); err != nil {
		m.t.Fatal(err)
	}
	return id, ended
}

// useIn makes a program of a control group use memory of a device.
func (m *machine) useIn(group string, pid int, uuid string, memory gpu.MiB) {
	m.t.Helper()
	file := filepath.Join(m.guests, uuid, strconv.Itoa(pid))
	err := errors.Join(
		os.MkdirAll(filepath.Dir(file), 0o700),
		os.WriteFile(file+".new", fmt.Appendf(nil, `{"memory_mb": %d, "cgroup": "/kubepods/%s/main"}`, memory, group), 0o600),
		os.Rename(file+".new", file))
	if err != nil {
		m.t.Fatal(err)
	}
	m.d.monitor.Read(m.t.Context(), uuid)
}

// A program in the scope of a lease takes too much. It ends, its lease stands with
// its fence, and neither its neighbours nor the process that asked for the lease
// notice. Started again, it runs under the same lease, and is ended again when it
// takes too much again. over_limit is revoke, which is stop for a scope.
func TestStopInAScope(t *testing.T) {
	const (
		uuid = "SIM-h200-0"
		podA = "pod0d9f7e4c-4f3e-4b0f-9d77-00000000000a"
		podB = "pod0d9f7e4c-4f3e-4b0f-9d77-00000000000b"
	)
	m := startMachine(t, "sim:2xh200", "gpu: {max_pipelines: 8, over_limit: revoke}")
	// The driver asks for both leases. It is in the scope of the first, and uses a
	// little of the GPU there.
	driver, _ := m.container(podA)
	lease := func(id, pod string, memory gpu.MiB) api.Lease {
		t.Helper()
		l, err := m.c.Acquire(t.Context(), api.LeaseRequest{ID: id, PID: driver.PID, Memory: memory, Binding: "named", GPU: "0", Scope: []string{pod}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := lease("first", podA, 4096), lease("second", podB, 1024)
	m.useIn(podA, driver.PID, uuid, 1)
	neighbour, _ := m.container(podB)
	beside, _ := m.container(podA) // in the same pod, without a use for the GPU
	m.useIn(podB, neighbour.PID, uuid, 1000)
	untouched := func(when string) {
		t.Helper()
		for _, id := range []process.ID{driver, neighbour, beside} {
			if !process.Proc().Alive(id) {
				t.Errorf("%s: process %d has ended", when, id.PID)
			}
		}
		for _, want := range []api.Lease{first, second} {
			if got, err := m.c.Lease(t.Context(), want.ID); err != nil || got.Fence != want.Fence || got.State != "active" || got.Parts[0].Memory != want.Parts[0].Memory {
				t.Errorf("%s: the lease is %+v, %v", when, got, err)
			}
		}
	}
	for _, when := range []string{"the first time", "started again"} {
		program, gone := m.container(podA)
		for range 3 {
			m.useIn(podA, program.PID, uuid, 4000)
		}
		untouched(when + ", within its limit")
		for ended := false; !ended; {
			m.useIn(podA, program.PID, uuid, 5000)
			select {
			case <-gone:
				ended = true
			default:
			}
		}
		m.d.monitor.Read(t.Context(), uuid)
		untouched(when)
	}
	if got, err := m.c.Lease(t.Context(), "first"); err != nil || got.Parts[0].Measured.Or(0) != 1 {
		t.Errorf("afterwards the lease is %+v, %v", got, err)
	}
	for stops := 0; stops < 2; { // they are told when the processes have gone
		stops = 0
		for e, err := range m.c.Events(t.Context(), 0, false) {
			if err != nil {
				t.Fatal(err)
			}
			switch e.Code {
			case gpu.EventStopped:
				stops++
				if e.Lease != "first" || fmt.Sprint(e.Data["fence"]) != fmt.Sprint(first.Fence) || fmt.Sprint(e.Data["processes"]) != "1" {
					t.Fatalf("the event is %+v", e)
				}
			case gpu.EventRevoked:
				t.Fatalf("revoked: %+v", e)
			}
		}
	}
	log, err := m.c.Audit(t.Context(), client.AuditQuery{What: "stop"})
	if err != nil || len(log.Entries) != 2 {
		t.Fatalf("the audit log has %+v, %v", log, err)
	}
	for _, e := range log.Entries {
		if e.Object.ID != "first" || !strings.HasPrefix(e.Why, "it used 4.9 GiB, 0.9 GiB more") || e.Who.Door != "daemon" {
			t.Errorf("the audit log has %+v", e)
		}
	}
}

// A launcher that uses nothing itself keeps the lease when what it started is
// ended.
func TestStopSparesTheLauncher(t *testing.T) {
	const uuid = "SIM-h200-0"
	m := startMachine(t, "sim:h200", "gpu: {over_limit: stop}")
	launcher := exec.Command("sh", "-c", "tail -f /dev/null & echo $!; cat") // until its input ends
	in, err := launcher.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = launcher.Wait() })
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	worker, err := process.Proc().Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Proc().Signal(kinship.Authority(), worker, process.Kill) })
	granted, err := m.c.Acquire(t.Context(), api.LeaseRequest{ID: "job", PID: launcher.Process.Pid, Binding: "process", Memory: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for process.Proc().Alive(worker) {
		m.use(pid, uuid, 5000)
	}
	held, err := m.c.Lease(t.Context(), "job")
	if err != nil || held.Fence != granted.Fence || held.State != "active" || held.Holder.PID != launcher.Process.Pid {
		t.Errorf("the lease is %+v, %v", held, err)
	}
}

// What ends processes is for administrators to say.
func TestStopIsForAdministratorsToSet(t *testing.T) {
	d, _ := openLogging(t)
	olga := access.Actor{UID: 4711, User: "olga", Door: access.Socket, Role: access.Operator}
	for _, change := range []string{`{"over_limit": "stop"}`, `{"services": {"s": {"over_limit": "stop"}}}`} {
		if err := d.settings.Change(t.Context(), olga, []byte(change)); err == nil {
			t.Errorf("an operator may set %s", change)
		}
	}
	if err := d.settings.Change(t.Context(), access.Daemon(), []byte(`{"over_limit": "stop", "services": {"s": {"over_limit": "warn"}}}`)); err != nil {
		t.Fatal(err)
	}
	s := d.watching(d.settings.load().Config)
	if s.GPU.OverLimit != watchdog.Stop || s.Services["s"].OverLimit != watchdog.Warn {
		t.Errorf("by default %q, for the service %q", s.GPU.OverLimit, s.Services["s"].OverLimit)
	}
	if err := d.settings.Change(t.Context(), access.Daemon(), []byte(`{"over_limit": "kill"}`)); err == nil {
		t.Error("there is no policy called kill")
	}
}
