package sim_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// A scripted process is one in the table of processes while it runs, a new one
// each time it starts, and ends with a signal.
func TestScriptedProcessesAreInTheTable(t *testing.T) {
	clock := newHand()
	b := open(t, scenario(t, `
devices: 2
timeline:
  - {at: 10s, for: 20s, repeat: 1m, device: 1, process: {pid: 5000001, memory_mb: 300, load: 50}}
`), sim.Options{Clock: clock.Now})
	table := process.Proc().With(b)
	if id, err := table.Identify(5000001); !errors.Is(err, process.ErrGone) {
		t.Errorf("before it starts it is %v, %v", id, err)
	}
	clock.pass(15 * time.Second)
	first, err := table.Identify(5000001)
	if err != nil || !table.Alive(first) || len(table.Ancestry(first)) != 1 {
		t.Fatalf("it is %v, %v", first, err)
	}
	if err := table.Signal(kinship.Authority(), first, 0); err != nil || !table.Alive(first) {
		t.Errorf("asked whether it is there: %v", err)
	}
	if err := table.Signal(kinship.Authority(), process.ID{PID: first.PID, Start: first.Start + 1}, unix.SIGKILL); !errors.Is(err, process.ErrGone) || !table.Alive(first) {
		t.Errorf("a signal to another one with its pid: %v", err)
	}
	dev := scan(t, b)[1]
	if load := fast(t, dev).Utilization.Or(0); load != 50 {
		t.Errorf("the load is %v", load)
	}
	if err := table.Signal(kinship.Authority(), first, unix.SIGTERM); err != nil || table.Alive(first) {
		t.Errorf("signalled: %v, alive %v", err, table.Alive(first))
	}
	if s := fast(t, dev); s.Utilization.Or(1) != 0 || len(s.Processes) != 0 {
		t.Errorf("after its end the load is %v, of %v", s.Utilization, s.Processes)
	}
	clock.pass(time.Minute)
	second, err := table.Identify(5000001)
	if err != nil || second.Start != first.Start+6000 || !table.Alive(second) || table.Alive(first) {
		t.Errorf("started again it is %v after %v, %v", second, first, err)
	}
}

// A scripted process has the user and the control group that the script gives
// it, and a guest the control group that its file names.
func TestFactsOfProcesses(t *testing.T) {
	dir := t.TempDir()
	b := open(t, scenario(t, `
devices: h200
timeline:
  - {device: 0, process: {pid: 5000001, name: embedder, memory_mb: 300, uid: 1000, cgroup: /system.slice/embedder.service}}
  - {device: 0, process: {pid: 5000002}}
`), sim.Options{Guests: dir})
	table := process.Proc().With(b)
	want := kinship.Facts{UID: access.KnownUID(1000), Cgroups: []string{"/system.slice/embedder.service"}, Programs: []string{"embedder"}}
	if got := table.Facts(process.ID{PID: 5000001}); !reflect.DeepEqual(got, want) {
		t.Errorf("the process is %+v, want %+v", got, want)
	}
	if uid, err := table.UID(5000001); err != nil || uid != 1000 {
		t.Errorf("it runs as %d, %v", uid, err)
	}
	if got := table.Facts(process.ID{PID: 5000002}); got.UID.Known() || got.Cgroups != nil || got.Programs != nil {
		t.Errorf("a process of which nothing is said is %+v", got)
	}
	if _, err := table.UID(5000002); err == nil {
		t.Error("it runs as somebody")
	}
	if got := table.Facts(process.ID{PID: 5000003}); !reflect.DeepEqual(got, kinship.Facts{}) {
		t.Errorf("nobody is %+v", got)
	}

	folder := filepath.Join(dir, "SIM-h200-0")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	guest := `{"memory_mb": 100, "cgroup": "/system.slice/other.service"}`
	if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(os.Getpid())), []byte(guest), 0o600); err != nil {
		t.Fatal(err)
	}
	fast(t, scan(t, b)[0])
	got := table.Facts(process.ID{PID: os.Getpid()})
	if !reflect.DeepEqual(got.Cgroups, []string{"/system.slice/other.service"}) || got.UID != access.KnownUID(os.Geteuid()) || len(got.Programs) == 0 {
		t.Errorf("the guest is %+v", got)
	}
}
