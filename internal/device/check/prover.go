// Package check proves that a GPU is right, and moves the memory of processes off it and
// back, through a helper process: a fault of the driver there hurts nobody.
//
// The daemon has a Prover and a Mover. They return a result even if the helper process
// crashes, hangs or talks nonsense. The helper process loads the driver's library, which
// the daemon never does. It is this program again, with the argument prove, and serves as
// a Process. It sees one device, leads its own session, and ends when the daemon does,
// because its input ends then.
//
// A check takes the memory that it may take, writes patterns and reads them again, copies
// both ways, computes known answers, and compares clocks, link and error counters with
// what they should be. Package proof judges the findings.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/process"
)

// ErrBusy means that another Prove of the device is running.
var ErrBusy = errors.New("the device is being checked already")

// Devices calls a device under its guard.
type Devices interface {
	Do(ctx context.Context, uuid string, do func(context.Context, device.Device) error) error
}

// Prover proves devices.
type Prover struct {
	// Devices has the simulated devices, which know the result of a check.
	Devices Devices
	// Command is the command line of the helper process; nil means this program with the
	// argument prove.
	Command []string
	// Environ has additional variables for the helper process.
	Environ []string
	// Quiet is how long the helper process may say nothing; 0 means a minute.
	Quiet time.Duration

	after func(time.Duration) <-chan time.Time // nil means time.After; set by tests

	mu      sync.Mutex
	running map[string]process.ID // by UUID; the zero ID if no process has started
}

// Prove carries out an Ask with a device, and calls told for each step that begins, goes
// on or ends, one at a time. It returns an error only if it tried nothing: ErrBusy, or
// the error of ctx.
func (p *Prover) Prove(ctx context.Context, d gpu.Device, a proof.Ask, told func(proof.Step)) (proof.Result, error) {
	a.GPU = d.UUID
	if err := ctx.Err(); err != nil {
		return proof.Result{}, err
	}
	if !p.begin(d.UUID) {
		return proof.Result{}, fmt.Errorf("%s: %w", d.Label(), ErrBusy)
	}
	started := time.Now()
	unable := func(why string) (proof.Result, error) {
		p.end(d.UUID)
		return proof.Unable(a, nil, why, time.Since(started)), nil
	}
	switch {
	case d.Vendor == gpu.Simulated:
		defer p.end(d.UUID)
		return p.examine(ctx, a, told, started)
	case d.Vendor != gpu.NVIDIA:
		return unable("berth has no check for devices of this vendor")
	case len(d.Instances) > 0:
		return unable("the device is cut into MIG instances; check those")
	}
	return p.help(ctx, a, told, started)
}

// begin records that a Prove of a device begins, and reports false if one is running.
func (p *Prover) begin(uuid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, busy := p.running[uuid]; busy {
		return false
	}
	if p.running == nil {
		p.running = map[string]process.ID{}
	}
	p.running[uuid] = process.ID{}
	return true
}

func (p *Prover) end(uuid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, uuid)
}

// Serves reports whether a process, given with its ancestors, is a helper process.
func (p *Prover) Serves(line []process.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.running {
		if id.PID != 0 && slices.Contains(line, id) {
			return true
		}
	}
	return false
}

// examine asks a simulated device, and waits as long as the device says.
func (p *Prover) examine(ctx context.Context, a proof.Ask, told func(proof.Step), started time.Time) (proof.Result, error) {
	var steps []proof.Step
	unable := "berth cannot check simulated devices of this kind"
	err := p.Devices.Do(ctx, a.GPU, func(ctx context.Context, d device.Device) (err error) {
		if e, is := d.(device.Examinee); is {
			steps, unable, err = e.Examine(ctx, a)
		}
		return err
	})
	if ctx.Err() != nil {
		return proof.Result{}, ctx.Err()
	}
	if err != nil { // a call that was given up may still answer
		return proof.Unable(a, nil, err.Error(), time.Since(started)), nil
	}
	if unable != "" {
		return proof.Unable(a, nil, unable, time.Since(started)), nil
	}
	for i, s := range steps {
		told(proof.Step{Name: s.Name})
		select {
		case <-time.After(time.Duration(s.Took * float64(time.Second))):
		case <-ctx.Done():
			return proof.Unable(a, steps[:i], "it was stopped", time.Since(started)), nil
		}
		told(s)
	}
	return proof.Judge(a, steps, time.Since(started)), nil
}
