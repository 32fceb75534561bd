package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// simulation is a session with a simulated device. It waits as long as the device says
// that a step takes.
type simulation struct {
	mover *Mover
	uuid  string

	mu     sync.Mutex
	failed error // why the session is over
}

// Do takes a step with all processes at once. It returns their states once the steps under
// way are done.
func (s *simulation) Do(ctx context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return nil, s.failed
	}
	if len(ids) == 0 {
		return nil, nil
	}
	outcomes, err := s.take(ctx, step, ids)
	if err != nil {
		s.failed = fmt.Errorf("%s: %w: %w", step, ErrBroken, err)
		return nil, s.failed
	}
	return outcomes, nil
}

func (s *simulation) take(ctx context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error) {
	fault := s.mover.fault(step)
	refused, err := happen(ctx, fault, move.Before)
	switch {
	case err != nil:
		return nil, err
	case refused != "":
		outcomes, err := s.settled(ctx, ids)
		return refuse(outcomes, refused), err
	}
	var outcomes []move.Outcome
	if step == move.Ask {
		outcomes, err = s.settled(ctx, ids)
	} else {
		outcomes, err = s.move(ctx, step, ids, fault)
	}
	if err != nil {
		return nil, err
	}
	refused, err = happen(ctx, fault, move.After)
	return refuse(outcomes, refused), err
}

// move begins a step, waits until it is done, and asks for the states: a process may have
// ended.
func (s *simulation) move(ctx context.Context, step move.Step, ids []move.Process, fault *move.Fault) ([]move.Outcome, error) {
	begun, err := s.call(ctx, step, ids)
	if err != nil {
		return nil, err
	}
	if _, err := happen(ctx, fault, move.During); err != nil {
		return nil, err
	}
	if err := wait(ctx, longest(begun)); err != nil {
		return nil, err
	}
	after, err := s.settled(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range after {
		begun[i].State = after[i].State
	}
	return begun, nil
}

// settled returns the states of processes. As with a driver, it waits until the steps
// under way are done.
func (s *simulation) settled(ctx context.Context, ids []move.Process) ([]move.Outcome, error) {
	for {
		outcomes, err := s.call(ctx, move.Ask, ids)
		if err != nil {
			return nil, err
		}
		left := longest(outcomes)
		if left == 0 {
			return outcomes, nil
		}
		if err := wait(ctx, left); err != nil {
			return nil, err
		}
	}
}

// call asks the device, and refuses an answer that does not cover each process.
func (s *simulation) call(ctx context.Context, step move.Step, ids []move.Process) (outcomes []move.Outcome, err error) {
	answer := make(chan []move.Outcome, 1) // a late call must not change the result
	err = s.mover.Devices.Do(ctx, s.uuid, func(ctx context.Context, d device.Device) error {
		p, can := d.(device.Parkable)
		if !can {
			return ErrNoParking
		}
		outcomes, err := p.Move(ctx, step, ids)
		answer <- outcomes
		return err
	})
	if err != nil {
		return nil, err
	}
	if outcomes = <-answer; len(outcomes) != len(ids) {
		return nil, fmt.Errorf("%d outcomes for %d processes", len(outcomes), len(ids))
	}
	return outcomes, nil
}

// Close ends the session. What was begun goes on.
func (s *simulation) Close() error { return nil }

// longest returns the time until all processes are done.
func longest(outcomes []move.Outcome) time.Duration {
	most := 0.0
	for _, o := range outcomes {
		most = max(most, o.Took)
	}
	return time.Duration(min(most, device.Forever.Seconds()) * float64(time.Second))
}

// wait waits, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// happen triggers a fault if this is its moment. It returns why the step is refused, or
// the empty string if it is not.
func happen(ctx context.Context, f *move.Fault, now move.When) (refused string, err error) {
	if f == nil || f.When != now {
		return "", nil
	}
	switch f.What {
	case move.Refuse:
		return "this error was planned for a test", nil
	case move.KillHelper:
		return "", errors.New("this was planned for a test")
	case move.KillDaemon:
		own, err := process.Proc().Identify(os.Getpid())
		if err == nil {
			err = process.Proc().Signal(kinship.Authority(), own, process.Kill)
		}
		if err != nil {
			return "", err
		}
	case move.Hang:
	}
	<-ctx.Done() // or the end of this process
	return "", context.Cause(ctx)
}

// refuse adds an error to outcomes, unless why is empty.
func refuse(outcomes []move.Outcome, why string) []move.Outcome {
	for i := range outcomes {
		if why != "" && outcomes[i].Error == "" {
			outcomes[i].Error = why
		}
	}
	return outcomes
}
