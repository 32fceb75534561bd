package sim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/devicetest"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/process"
)

// lot is a folder of guests with real processes in it.
type lot struct {
	*testing.T
	dir string
}

func newLot(t *testing.T) lot { return lot{t, t.TempDir()} }

// enter starts a process, and lets it be a guest of a device.
func (l lot) enter(uuid, file string) move.Process {
	l.Helper()
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	id, err := process.Proc().Identify(child.Process.Pid)
	if err != nil {
		l.Fatal(err)
	}
	l.write(uuid, id.PID, file)
	return move.Process{PID: id.PID, Start: id.Start}
}

func (l lot) write(uuid string, pid int, file string) {
	l.Helper()
	path := filepath.Join(l.dir, uuid, strconv.Itoa(pid))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		l.Fatal(err)
	}
}

// end kills a process and waits until it is gone.
func (l lot) end(id move.Process) {
	l.Helper()
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
		l.Fatal(err)
	}
	_, _ = syscall.Wait4(id.PID, nil, 0, nil)
}

func (l lot) parkedFiles(uuid string) []string {
	files, _ := filepath.Glob(filepath.Join(l.dir, uuid, "*.parked"))
	return files
}

// card opens one simulated GPU with a clock that the test moves.
func (l lot) card(text string) (device.Device, *hand) {
	clock := newHand()
	return scan(l.T, open(l.T, scenario(l.T, text), sim.Options{Guests: l.dir, Clock: clock.Now}))[0], clock
}

func take(t *testing.T, dev device.Device, step move.Step, ids ...move.Process) []move.Outcome {
	t.Helper()
	outcomes, err := dev.(device.Parkable).Move(t.Context(), step, ids)
	if err != nil || len(outcomes) != len(ids) {
		t.Fatalf("%s: %v, %v", step, outcomes, err)
	}
	return outcomes
}

// moves takes a step with one process, which must work, and lets its time pass.
func moves(t *testing.T, clock *hand, dev device.Device, step move.Step, id move.Process) {
	t.Helper()
	o := take(t, dev, step, id)[0]
	if o.Error != "" {
		t.Fatalf("%s: %+v", step, o)
	}
	clock.pass(seconds(o.Took))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func state(t *testing.T, dev device.Device, id move.Process) move.State {
	t.Helper()
	outcomes, err := dev.(device.Parkable).Move(t.Context(), move.Ask, []move.Process{id})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0].State
}

func TestParkAGuest(t *testing.T) {
	l := newLot(t)
	dev, clock := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 40960, "load": 60}`)
	other := l.enter("SIM-h200-0", `{"memory_mb": 1000, "load": 10}`)
	for range 3 {
		devicetest.Park(t, dev, id, clock.pass)
	}
	if files := l.parkedFiles("SIM-h200-0"); files != nil {
		t.Errorf("after it has resumed, %v is left", files)
	}
	moves(t, clock, dev, move.Lock, id)
	if load := fast(t, dev).Utilization; load != gpu.Some(gpu.Percent(10)) {
		t.Errorf("while it is locked the load is %v; want that of the other one", load)
	}
	if s := state(t, dev, other); s != move.Running {
		t.Errorf("the other one is %s", s)
	}
}

func TestParkAScriptedProcess(t *testing.T) {
	clock := newHand()
	b := open(t, scenario(t, `
devices: l4
timeline: [{at: 0s, device: 0, process: {pid: 5000001, memory_mb: 8GiB, load: 70}}]
`), sim.Options{Clock: clock.Now})
	dev := scan(t, b)[0]
	start, _ := b.Started(5000001)
	id := move.Process{PID: 5000001, Start: start}
	devicetest.Park(t, dev, id, clock.pass)
	moves(t, clock, dev, move.Lock, id)
	if load := fast(t, dev).Utilization; load != gpu.Some(gpu.Percent(0)) {
		t.Errorf("locked, its load is %v", load)
	}
	moves(t, clock, dev, move.Checkpoint, id)
	if again, runs := b.Started(5000001); !runs || again != start {
		t.Errorf("parked, it started at %d, %v; want it to run on", again, runs)
	}
	b.End(5000001)
	if s := state(t, dev, id); s != move.Gone {
		t.Errorf("ended while it was parked it is %s", s)
	}
}

// Moving memory takes as long as it does on the card, whatever the speed of the
// simulation, and two processes move at once.
func TestHowLongParkingTakes(t *testing.T) {
	for _, speed := range []float64{1, 10} {
		t.Run(fmt.Sprint(speed), func(t *testing.T) {
			l := newLot(t)
			dev, clock := l.card(fmt.Sprintf("devices: h200\nspeed: %g", speed))
			big, small := l.enter("SIM-h200-0", `{"memory_mb": 15360}`), l.enter("SIM-h200-0", `{"memory_mb": 1536}`)
			take(t, dev, move.Lock, big, small)
			out := take(t, dev, move.Checkpoint, big, small)
			if out[0].Took != 10/speed || out[1].Took != 1/speed {
				t.Errorf("it takes %v s and %v s; want %v and %v", out[0].Took, out[1].Took, 10/speed, 1/speed)
			}
			clock.pass(seconds(out[1].Took))
			if s := fast(t, dev); len(s.Processes) != 1 || s.Processes[0].PID != big.PID {
				t.Errorf("when the small one is out, the card has %v; want the big one", s.Processes)
			}
			states, _ := dev.(device.Parkable).Move(t.Context(), move.Ask, []move.Process{big, small})
			if states[0].State != move.Checkpointed || states[0].Took != 9/speed || states[1].Took != 0 {
				t.Errorf("they stand at %+v; want the big one to take %v s more", states, 9/speed)
			}
			if o := take(t, dev, move.Restore, big)[0]; o.Code != device.CodeIllegalState || o.Took != 9/speed {
				t.Errorf("a step in the middle of another: %+v", o)
			}
			clock.pass(seconds(out[0].Took))
			if used := fast(t, dev).MemoryUsed; used != gpu.Some(gpu.MiB(615)) {
				t.Errorf("with both out, the card uses %v MiB", used)
			}
			if back := take(t, dev, move.Restore, small)[0].Took; back <= 0.29/speed || back >= 0.3/speed {
				t.Errorf("back it takes %v s; want 1.5 GiB at 5.1 GiB/s", back)
			}
		})
	}
}

// A restore without room fails, and the process is lost, as with the real driver.
func TestRestoreWithoutRoom(t *testing.T) {
	l := newLot(t)
	dev, clock := l.card("devices: rtx-4060")
	id := l.enter("SIM-rtx-4060-0", `{"memory_mb": 5000}`)
	moves(t, clock, dev, move.Lock, id)
	moves(t, clock, dev, move.Checkpoint, id)
	other := l.enter("SIM-rtx-4060-0", `{"memory_mb": 5000}`)
	if o := take(t, dev, move.Restore, id)[0]; o.Code != device.CodeOutOfMemory || o.State != move.Checkpointed {
		t.Errorf("without room: %+v", o)
	}
	l.end(other)
	if o := take(t, dev, move.Restore, id)[0]; o.Code != device.CodeSystem || o.State != move.Checkpointed {
		t.Errorf("with room, after it failed once: %+v", o)
	}
}

// Memory that is on its way back counts, so two processes never return to the same
// place.
func TestTwoReturnToTheRoomOfOne(t *testing.T) {
	l := newLot(t)
	dev, clock := l.card("devices: rtx-4060")
	var ids []move.Process
	for range 2 {
		id := l.enter("SIM-rtx-4060-0", `{"memory_mb": 5000}`)
		moves(t, clock, dev, move.Lock, id)
		moves(t, clock, dev, move.Checkpoint, id)
		ids = append(ids, id)
	}
	out := take(t, dev, move.Restore, ids...)
	if out[0].Error != "" || out[0].State != move.Locked || out[1].Code != device.CodeOutOfMemory {
		t.Errorf("returned at once: %+v", out)
	}
}

func TestAStoppedProcessAnswersNothing(t *testing.T) {
	l := newLot(t)
	dev, _ := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 100}`)
	if err := syscall.Kill(id.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(id.PID, nil, syscall.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	if o := take(t, dev, move.Lock, id)[0]; o.State != move.Unknown || seconds(o.Took) != device.Forever {
		t.Errorf("stopped: %+v; want no answer, for ever", o)
	}
	if err := syscall.Kill(id.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(id.PID, nil, syscall.WCONTINUED, nil); err != nil {
		t.Fatal(err)
	}
	if s := state(t, dev, id); s != move.Running {
		t.Errorf("continued, it is %s; want it where it was", s)
	}
}

// A simulation that is opened again finds processes as the one before left them, in
// the middle of a step too.
func TestParkedProcessesOutliveTheSimulation(t *testing.T) {
	l := newLot(t)
	file := scenario(t, "devices: h200")
	clock := newHand()
	again := func() device.Device {
		return scan(t, open(t, file, sim.Options{Guests: l.dir, Clock: clock.Now}))[0]
	}
	id := l.enter("SIM-h200-0", `{"memory_mb": 15360, "load": 50}`)
	moves(t, clock, again(), move.Lock, id)
	if s := state(t, again(), id); s != move.Locked {
		t.Errorf("locked by one before, it is %s", s)
	}
	out := take(t, again(), move.Checkpoint, id)[0]
	if used := fast(t, again()).MemoryUsed; used != gpu.Some(gpu.MiB(615+15360)) {
		t.Errorf("in the middle, the card uses %v MiB", used)
	}
	clock.pass(seconds(out.Took))
	if s := fast(t, again()); len(s.Processes) != 0 || s.MemoryUsed != gpu.Some(gpu.MiB(615)) || s.Utilization != gpu.Some(gpu.Percent(0)) {
		t.Errorf("parked, the card has %v and uses %v MiB", s.Processes, s.MemoryUsed)
	}
	moves(t, clock, again(), move.Restore, id)
	moves(t, clock, again(), move.Unlock, id)
	if s := fast(t, again()); len(s.Processes) != 1 || s.Utilization != gpu.Some(gpu.Percent(50)) {
		t.Errorf("resumed, the card has %v at %v %%", s.Processes, s.Utilization)
	}
}

// A process that is killed while it is parked is gone without a trace.
func TestKilledWhileParked(t *testing.T) {
	l := newLot(t)
	dev, clock := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 15360}`)
	moves(t, clock, dev, move.Lock, id)
	moves(t, clock, dev, move.Checkpoint, id)
	if n := len(l.parkedFiles("SIM-h200-0")); n != 1 {
		t.Fatalf("parked, %d files say so", n)
	}
	l.end(id)
	if s := state(t, dev, id); s != move.Gone {
		t.Errorf("killed, it is %s", s)
	}
	if files := l.parkedFiles("SIM-h200-0"); files != nil {
		t.Errorf("killed, it left %v", files)
	}
}

// What the file of a guest says does not count while the guest is locked: its
// calls to the driver wait.
func TestAParkedGuestCannotChangeItsMemory(t *testing.T) {
	l := newLot(t)
	dev, clock := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 1000, "cgroup": "/one"}`)
	moves(t, clock, dev, move.Lock, id)
	for _, file := range []string{`{"memory_mb": 9000, "load": 90}`, `{"memory_`} {
		l.write("SIM-h200-0", id.PID, file)
		if s := fast(t, dev); len(s.Processes) != 1 || s.MemoryUsed != gpu.Some(gpu.MiB(1615)) || s.Utilization != gpu.Some(gpu.Percent(0)) {
			t.Errorf("locked, with %s in its file it has %v at %v", file, s.Processes, s.Utilization)
		}
	}
	l.write("SIM-h200-0", id.PID, `{"memory_mb": 2000}`)
	moves(t, clock, dev, move.Unlock, id)
	if used := fast(t, dev).MemoryUsed; used != gpu.Some(gpu.MiB(2615)) {
		t.Errorf("unlocked, the card uses %v MiB", used)
	}
}

func TestAGuestMayRefuseAStep(t *testing.T) {
	l := newLot(t)
	dev, clock := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 1000, "refuses": "checkpoint"}`)
	moves(t, clock, dev, move.Lock, id)
	if o := take(t, dev, move.Checkpoint, id)[0]; o.Code != device.CodeNotSupported || o.State != move.Locked {
		t.Errorf("it answers %+v", o)
	}
	moves(t, clock, dev, move.Unlock, id)
}

// Nobody but the simulation parks: what others write under its names is nothing.
func TestFilesThatParkNothing(t *testing.T) {
	l := newLot(t)
	dev, _ := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 1000}`)
	name := filepath.Join(l.dir, "SIM-h200-0", strconv.Itoa(id.PID)+".parked")
	whole := fmt.Sprintf(`{"start_time":%d,"state":"checkpointed","memory_mb":1}`, id.Start)
	for what, make := range map[string]func() error{
		"nonsense": func() error { return os.WriteFile(name, []byte("{"), 0o600) },
		"too much memory": func() error {
			return os.WriteFile(name, fmt.Appendf(nil, `{"start_time":%d,"state":"locked","memory_mb":%d}`, id.Start, 1<<50), 0o600)
		},
		"a link":   func() error { return os.Symlink(filepath.Join(l.dir, "elsewhere"), name) },
		"a folder": func() error { return os.Mkdir(name, 0o700) },
		"another process's": func() error {
			return os.WriteFile(name, []byte(`{"start_time":1,"state":"checkpointed","memory_mb":1}`), 0o600)
		},
	} {
		if err := os.WriteFile(filepath.Join(l.dir, "elsewhere"), []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if s := state(t, dev, id); s != move.Running {
			t.Errorf("with %s under the name, the process is %s", what, s)
		}
		_ = os.Remove(name)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root gives a file to another user")
	}
	if err := os.WriteFile(name, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 4711, -1); err != nil {
		t.Fatal(err)
	}
	if s := state(t, dev, id); s != move.Running {
		t.Errorf("with a file of another user, the process is %s", s)
	}
}

// A link out of the folder of guests is not followed to write.
func TestParkingWritesOnlyIntoTheFolder(t *testing.T) {
	l := newLot(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(l.dir, "SIM-h200-0")); err != nil {
		t.Fatal(err)
	}
	dev, _ := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 1000}`)
	if o := take(t, dev, move.Lock, id)[0]; o.Code != device.CodeSystem || o.State != move.Running {
		t.Errorf("through a link: %+v", o)
	}
	if files, _ := os.ReadDir(outside); len(files) != 1 {
		t.Errorf("there are %d files outside; want the guest's own only", len(files))
	}
}

// Whatever others put into the folder, a process that is parked comes back.
func TestOthersCannotKeepAProcessParked(t *testing.T) {
	l := newLot(t)
	dev, clock := l.card("devices: h200")
	id := l.enter("SIM-h200-0", `{"memory_mb": 1000}`)
	moves(t, clock, dev, move.Lock, id)
	moves(t, clock, dev, move.Checkpoint, id)
	if err := os.MkdirAll(filepath.Join(l.dir, "SIM-h200-0", "."+strconv.Itoa(id.PID)+".parked", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	moves(t, clock, dev, move.Restore, id)
	moves(t, clock, dev, move.Unlock, id)
	if s := state(t, dev, id); s != move.Running {
		t.Errorf("it is %s", s)
	}
}

// Parking under the guard of a device does not keep it from being read.
func TestParkingDoesNotHoldTheDevice(t *testing.T) {
	file := scenario(t, `
devices: h200
timeline: [{at: 0s, device: 0, process: {pid: 5000001, memory_mb: 90GiB}}]
`)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, file)
		start, _ := b.Started(5000001)
		ids := []move.Process{{PID: 5000001, Start: start}}
		dev := scan(t, b)[0]
		take(t, dev, move.Lock, ids...)
		began := time.Now()
		out := take(t, dev, move.Checkpoint, ids...)[0]
		if took := time.Since(began); took != 0 || out.Took != 60 {
			t.Errorf("beginning took %v, for %v s of moving; want 0 and 60", took, out.Took)
		}
		if n := len(fast(t, dev).Processes); n != 1 {
			t.Errorf("%d processes while it moves", n)
		}
		time.Sleep(seconds(out.Took))
		if n := len(fast(t, dev).Processes); n != 0 {
			t.Errorf("%d processes when it has moved", n)
		}
		_ = b.Close()
	})
}

// Every model can park.
func TestEveryModelParks(t *testing.T) {
	file := scenario(t, `
devices: h200+h100+a100+l4+t4+rtx-4060+rtx-4090+mi300x
timeline: [{at: 0s, device: all, process: {pid: 5000001, memory_mb: 4GiB}}]
`)
	clock := newHand()
	b := open(t, file, sim.Options{Clock: clock.Now})
	start, _ := b.Started(5000001)
	for _, dev := range scan(t, b) {
		devicetest.Park(t, dev, move.Process{PID: 5000001, Start: start}, clock.pass)
	}
}
