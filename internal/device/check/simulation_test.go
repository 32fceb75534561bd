package check

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
)

// parkingDevice is a device on which every step takes ten seconds.
type parkingDevice struct {
	device.Device
	mu    sync.Mutex // guards state and until
	state map[int]move.State
	until map[int]time.Time // when what was begun is done
	err   error
	mute  bool // it answers about nobody
}

const stepTakes = 10 * time.Second

func (d *parkingDevice) states(ids []move.Process) (list []move.Outcome, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		list = append(list, move.Outcome{Process: id, State: d.state[id.PID], Took: max(0, time.Until(d.until[id.PID]).Seconds())})
	}
	if d.mute {
		list = nil
	}
	return list, d.err
}

func (d *parkingDevice) Move(_ context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error) {
	d.mu.Lock()
	for _, id := range ids {
		if step == move.Checkpoint && d.state[id.PID] == move.Locked {
			d.state[id.PID], d.until[id.PID] = move.Checkpointed, time.Now().Add(stepTakes)
		}
	}
	d.mu.Unlock()
	list, err := d.states(ids)
	if step == move.Ask {
		return list, err
	}
	for i := range list {
		if list[i].State != move.Checkpointed {
			list[i].Error, list[i].Code = "not its turn", 401
		}
	}
	return list, err
}

var simulatedCard = gpu.Device{UUID: "SIM-1", Vendor: gpu.Simulated}

// simulate returns a mover for a device with two processes: one that is locked, and
// one that runs.
func simulate(t *testing.T, faults string) (*Mover, *parkingDevice, []move.Process) {
	t.Helper()
	d := &parkingDevice{state: map[int]move.State{7: move.Locked, 8: move.Running}, until: map[int]time.Time{}}
	return &Mover{Devices: rack{d}, Faults: planned(t, faults)}, d, []move.Process{{PID: 7, Start: 1}, {PID: 8, Start: 2}}
}

func openSimulated(t *testing.T, m *Mover) Session {
	t.Helper()
	s, err := m.Open(t.Context(), simulatedCard, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSimulatedParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, d, ids := simulate(t, "")
		began, s := time.Now(), openSimulated(t, m)
		outcomes, err := s.Do(t.Context(), move.Checkpoint, ids)
		if err != nil || said(outcomes) != "checkpointed; running 401 not its turn" || outcomes[0].Took != 10 || time.Since(began) != stepTakes {
			t.Errorf("%+v, %v after %v", outcomes, err, time.Since(began))
		}
		// A process that ends in the middle of a step is gone.
		become := func(s move.State) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.state[8], d.until[8] = s, time.Time{}
		}
		become(move.Locked)
		time.AfterFunc(time.Second, func() { become(move.Gone) })
		if outcomes, err := s.Do(t.Context(), move.Checkpoint, ids[1:]); err != nil || outcomes[0].State != move.Gone {
			t.Errorf("%+v, %v", outcomes, err)
		}
		if outcomes, err := s.Do(t.Context(), move.Lock, nil); err != nil || outcomes != nil {
			t.Errorf("nobody: %+v, %v", outcomes, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A step that misses its deadline ends the session, and goes on in the device.
// Another session waits for it.
func TestSimulatedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, ids := simulate(t, "")
		began, s := time.Now(), openSimulated(t, m)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Do(ctx, move.Checkpoint, ids[:1]); !errors.Is(err, ErrBroken) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := s.Do(t.Context(), move.Ask, ids); !errors.Is(err, ErrBroken) {
			t.Errorf("the session after its end: %v", err)
		}
		outcomes, err := openSimulated(t, m).Do(t.Context(), move.Ask, ids)
		if err != nil || said(outcomes) != "checkpointed; running" || time.Since(began) != stepTakes {
			t.Errorf("%+v, %v after %v", outcomes, err, time.Since(began))
		}
	})
}

func TestSimulatedFaults(t *testing.T) {
	for fault, c := range map[string]struct {
		said  string // empty: the session ends
		state move.State
	}{
		"checkpoint:before:error":       {"locked this error was planned for a test", move.Locked},
		"checkpoint:after:error":        {"checkpointed this error was planned for a test", move.Checkpointed},
		"checkpoint:before:kill-helper": {"", move.Locked},
		"checkpoint:during:kill-helper": {"", move.Checkpointed},
		"checkpoint:after:kill-helper":  {"", move.Checkpointed},
		"checkpoint:before:hang":        {"", move.Locked},
		"checkpoint:during:hang":        {"", move.Checkpointed},
		"checkpoint:after:hang":         {"", move.Checkpointed},
		"lock:before:error":             {"checkpointed", move.Checkpointed},
		"checkpoint:before:error:2":     {"checkpointed", move.Checkpointed},
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _, ids := simulate(t, fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				outcomes, err := openSimulated(t, m).Do(ctx, move.Checkpoint, ids[:1])
				if c.said == "" && !errors.Is(err, ErrBroken) || c.said != "" && (err != nil || said(outcomes) != c.said) {
					t.Errorf("%+v, %v", outcomes, err)
				}
				if outcomes, err := openSimulated(t, m).Do(t.Context(), move.Ask, ids[:1]); err != nil || outcomes[0].State != c.state {
					t.Errorf("another session: %+v, %v", outcomes, err)
				}
			})
		})
	}
}

func TestSimulatedTrouble(t *testing.T) {
	m, d, ids := simulate(t, "")
	s := openSimulated(t, m)
	d.mute = true
	if _, err := s.Do(t.Context(), move.Ask, ids); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "0 outcomes for 2 processes") {
		t.Error(err)
	}
	s = openSimulated(t, m)
	d.err = device.ErrHung
	if _, err := s.Do(t.Context(), move.Lock, ids); !errors.Is(err, device.ErrHung) {
		t.Error(err)
	}
	m.Devices = rack{&simulated{}}
	if _, err := m.Open(t.Context(), simulatedCard, false); !errors.Is(err, ErrNoParking) {
		t.Errorf("a device that parks nothing: %v", err)
	}
}
