package devicetest

import (
	"os"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
)

// checkParkable asks each device.Parkable about processes that have nothing on it: the
// device refuses every step with an answer, and nothing changes.
func checkParkable(t *testing.T, b device.Backend) {
	self, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	own := move.Process{PID: self.PID, Start: self.Start}
	ids := []move.Process{own, {PID: own.PID, Start: own.Start + 1}, {PID: 1 << 30, Start: 1}}
	want := []move.State{move.Without, move.Gone, move.Gone}
	for _, dev := range Scan(t, b) {
		p, is := dev.(device.Parkable)
		if !is {
			continue
		}
		uuid := dev.Describe().UUID
		for _, step := range append(move.Steps(), "nonsense") {
			outcomes, err := p.Move(t.Context(), step, ids)
			if err != nil || len(outcomes) != len(ids) {
				t.Fatalf("%s: %s must answer for each process, got %d, %v", uuid, step, len(outcomes), err)
			}
			for i, o := range outcomes {
				if o.Process != ids[i] || o.State != want[i] || o.Error == "" || o.Code == 0 || o.Took != 0 {
					t.Errorf("%s: %s of a process without memory on the device must be refused, got %+v; want %s", uuid, step, o, want[i])
				}
			}
		}
		outcomes, err := p.Move(t.Context(), move.Ask, ids)
		if err != nil || len(outcomes) != len(ids) {
			t.Fatalf("%s: an ask must answer for each process, got %d, %v", uuid, len(outcomes), err)
		}
		for i, o := range outcomes {
			if o.Process != ids[i] || o.State != want[i] || o.Error != "" || o.Took != 0 {
				t.Errorf("%s: the state of a process without memory on the device: %+v; want %s", uuid, o, want[i])
			}
		}
		if none, err := p.Move(t.Context(), move.Ask, nil); err != nil || len(none) != 0 {
			t.Errorf("%s: the states of no process: %v, %v", uuid, none, err)
		}
	}
}

// Park parks a process and resumes it, and checks on the way that the device keeps the
// promises of device.Parkable. The process has memory on the device, and keeps it the
// same. The function wait lets time pass for the device.
func Park(t *testing.T, dev device.Device, id move.Process, wait func(time.Duration)) {
	t.Helper()
	has := memoryOf(t, dev, id)
	if has == 0 {
		t.Fatalf("process %d has no memory on the device", id.PID)
	}
	refused := func(when move.State, steps ...move.Step) {
		t.Helper()
		for _, step := range steps {
			o := take(t, dev, step, id)
			if o.State != when || o.Code != device.CodeIllegalState || o.Error == "" {
				t.Errorf("%s of a process that is %s: %+v; want it refused", step, when, o)
			}
		}
		stands(t, dev, id, when)
	}
	takes := func(step move.Step, after move.State) {
		t.Helper()
		o := take(t, dev, step, id)
		if o.State != after || o.Error != "" || o.Code != 0 {
			t.Fatalf("%s: %+v; want %s", step, o, after)
		}
		wait(time.Duration(o.Took*float64(time.Second)) + time.Millisecond)
		stands(t, dev, id, after)
	}

	refused(move.Running, move.Checkpoint, move.Restore, move.Unlock)
	takes(move.Lock, move.Locked)
	refused(move.Locked, move.Lock, move.Restore)
	if now := memoryOf(t, dev, id); now != has {
		t.Errorf("locked it has %d MiB; want %d, as before", now, has)
	}
	used := memoryUsed(t, dev)
	takes(move.Checkpoint, move.Checkpointed)
	refused(move.Checkpointed, move.Lock, move.Checkpoint, move.Unlock)
	if now := memoryUsed(t, dev); now != used-has || memoryOf(t, dev, id) != 0 {
		t.Errorf("parked, the device uses %d MiB; want %d, without the %d of the process", now, used-has, has)
	}
	takes(move.Restore, move.Locked)
	if now := memoryOf(t, dev, id); now != has {
		t.Errorf("restored it has %d MiB; want %d, as before", now, has)
	}
	takes(move.Unlock, move.Running)
	if now := memoryOf(t, dev, id); now != has {
		t.Errorf("resumed it has %d MiB; want %d, as before", now, has)
	}
}

// take begins a step with a process.
func take(t *testing.T, dev device.Device, step move.Step, id move.Process) move.Outcome {
	t.Helper()
	outcomes, err := dev.(device.Parkable).Move(t.Context(), step, []move.Process{id})
	if err != nil || len(outcomes) != 1 || outcomes[0].Process != id {
		t.Fatalf("%s: %+v, %v; want an answer for the process", step, outcomes, err)
	}
	return outcomes[0]
}

// stands checks the state of a process, with no step under way.
func stands(t *testing.T, dev device.Device, id move.Process, want move.State) {
	t.Helper()
	outcomes, err := dev.(device.Parkable).Move(t.Context(), move.Ask, []move.Process{id})
	if err != nil || len(outcomes) != 1 || outcomes[0] != (move.Outcome{Process: id, State: want}) {
		t.Errorf("it stands at %+v, %v; want %s", outcomes, err, want)
	}
}

func memoryOf(t *testing.T, dev device.Device, id move.Process) gpu.MiB {
	t.Helper()
	var s gpu.Sample
	if err := dev.Fast(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Processes {
		if p.PID == id.PID {
			return p.Memory.Or(0)
		}
	}
	return 0
}

func memoryUsed(t *testing.T, dev device.Device) gpu.MiB {
	t.Helper()
	var s gpu.Sample
	if err := dev.Fast(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	return s.MemoryUsed.Or(0)
}
