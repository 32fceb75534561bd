// Package checkup checks devices on request, and before they leave quarantine.
//
// While a check runs, nothing is granted on the device. The check takes only memory that
// could be leased, so nobody gets less because of it.
package checkup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// Prover asks a device to do what an Ask says, in a separate process. It reports its
// progress to tell and gives up when ctx ends. An error means that nothing was tried,
// because ctx has ended or another process is asking the device.
type Prover interface {
	Prove(ctx context.Context, on gpu.Device, a proof.Ask, tell func(proof.Step)) (proof.Result, error)
}

// Monitor samples devices and records the verdicts of checks.
type Monitor interface {
	// Read samples a device now.
	Read(ctx context.Context, uuid string)
	Checked(uuid string, began time.Time, v proof.Verdict, why string)
}

// Leases knows how much of a device can be leased.
type Leases interface {
	Sum(uuid string) ledger.DeviceSum
}

// Options are the parts that a Checkup works with.
type Options struct {
	Prover   Prover // nil if no device can be asked
	Monitor  Monitor
	Leases   Leases
	Closures *drains.Drains // closes a device to new leases while it is checked
	Publish  func(gpu.Event)
}

// Checkup checks devices.
type Checkup struct {
	Options
	woken chan struct{} // a device is due

	mu      sync.Mutex
	due     map[string]gpu.Device // by UUID
	running map[string]bool       // devices that Run is checking now
}

// New returns a Checkup with these parts.
func New(o Options) *Checkup {
	return &Checkup{Options: o, woken: make(chan struct{}, 1), due: map[string]gpu.Device{}, running: map[string]bool{}}
}

// Due notes that a device has to be checked before it leaves quarantine. It does not wait
// for the check, which Run does.
func (c *Checkup) Due(on gpu.Device) {
	c.mu.Lock()
	if !c.running[on.UUID] {
		c.due[on.UUID] = on
	}
	c.mu.Unlock()
	select {
	case c.woken <- struct{}{}:
	default: // Run is about to look anyway
	}
}

// Run checks the devices that are due, several at once, until ctx ends. It waits for the
// checks that it began before it returns.
func (c *Checkup) Run(ctx context.Context) {
	var checks sync.WaitGroup
	defer checks.Wait()
	for {
		select {
		case <-c.woken:
		case <-ctx.Done():
			return
		}
		for _, on := range c.takeDue() {
			checks.Go(func() {
				defer c.done(on.UUID)
				_, _ = c.Check(ctx, on, proof.Ask{Verb: proof.Check, Kind: proof.Quick}, gpu.By{}) // Check publishes its outcome; a device whose check did not begin is still due
			})
		}
	}
}

// takeDue returns the devices that are due, and notes that they are being checked.
func (c *Checkup) takeDue() (list []gpu.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uuid, on := range c.due {
		c.running[uuid] = true
		list = append(list, on)
	}
	clear(c.due)
	return list
}

func (c *Checkup) done(uuid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, uuid)
}

// Check asks a device what a says, and returns the result. It takes at most the memory
// that could be leased, even if a allows more. A check changes how far the device is
// trusted. By asks for the check; the zero value is berth itself. An error means that the
// device was not asked, because another task holds it or ctx has ended.
func (c *Checkup) Check(ctx context.Context, on gpu.Device, a proof.Ask, by gpu.By) (proof.Result, error) {
	return c.ask(ctx, on, a, 0, by)
}

// Scrub overwrites all memory of a device that could be leased, and also the amount held
// by a lease whose processes have not begun. If berth already works on the device, Scrub
// waits until that is over.
func (c *Checkup) Scrub(ctx context.Context, on gpu.Device, held gpu.MiB) (proof.Result, error) {
	for {
		r, err := c.ask(ctx, on, proof.Ask{Verb: proof.Scrub}, held, gpu.By{})
		busy := (*drains.BusyError)(nil)
		if !errors.As(err, &busy) || busy.Over == nil {
			return r, err
		}
		select {
		case <-busy.Over:
		case <-ctx.Done():
			return proof.Result{}, context.Cause(ctx)
		}
	}
}

// ask asks a device as Check does, and lets it take the amount beside in addition to what
// could be leased.
func (c *Checkup) ask(ctx context.Context, on gpu.Device, a proof.Ask, beside gpu.MiB, by gpu.By) (proof.Result, error) {
	release, err := c.Closures.Hold(on.UUID, doing(a))
	if err != nil {
		return proof.Result{}, err
	}
	defer release()
	began := time.Now()
	a.GPU = on.UUID
	free := max(c.Leases.Sum(on.UUID).Available()+beside, 0) // nothing is granted from here on
	if a.Memory == 0 || a.Memory > free {
		a.Memory = free
	}
	c.tell(on, a, by, gpu.Note, fmt.Sprintf("%s: %s, with %s of %s", on.Label(), doing(a), a.Memory.Beside(on.MemoryTotal), on.MemoryTotal.Beside(a.Memory)), map[string]any{"memory_mb": a.Memory})
	r, err := c.prove(ctx, on, a, by)
	// Sample the device again before it opens. Otherwise nobody could lease the memory of
	// the check until the next sample.
	c.Monitor.Read(context.WithoutCancel(ctx), on.UUID)
	switch {
	case ctx.Err() != nil && r.Verdict != proof.Failed: // the caller has left
		c.tell(on, a, by, gpu.Warning, fmt.Sprintf("%s: its %s was given up before its end", on.Label(), noun(a)), nil)
		return proof.Result{}, context.Cause(ctx)
	case err != nil:
		return proof.Result{}, &drains.BusyError{Why: err.Error()}
	}
	if a.Verb == proof.Check {
		c.Monitor.Checked(on.UUID, began, r.Verdict, r.Reason)
	}
	severity := gpu.Note
	switch {
	case r.Verdict == proof.Failed:
		severity = gpu.Serious
	case a.Verb == proof.Scrub && r.Verdict != proof.Passed:
		severity = gpu.Warning
	}
	c.tell(on, a, by, severity, fmt.Sprintf("%s: its %s %s: %s", on.Label(), noun(a), r.Verdict.Text(), r.Reason),
		map[string]any{"verdict": string(r.Verdict), "memory_mb": r.Memory, "took_seconds": r.Took})
	return r, nil
}

// prove asks the device, and publishes each step.
func (c *Checkup) prove(ctx context.Context, on gpu.Device, a proof.Ask, by gpu.By) (proof.Result, error) {
	switch {
	case c.Prover == nil:
		return proof.Unable(a, nil, "this daemon has no way to ask it", 0), nil
	case a.Memory == 0:
		return proof.Unable(a, nil, "all of its memory is leased or in use", 0), nil
	}
	quarters := map[proof.Name]int{} // published so far, by step
	return c.Prover.Prove(ctx, on, a, func(s proof.Step) {
		data := map[string]any{"step": string(s.Name)}
		text := fmt.Sprintf("%s: %s ", on.Label(), s.Name.Text())
		switch quarter := int(s.Done / 25); {
		case s.Verdict != "":
			data["verdict"], data["detail"] = string(s.Verdict), s.Detail
			text += s.Verdict.Text()
			if s.Detail != "" {
				text += ": " + s.Detail
			}
		case quarter > quarters[s.Name]:
			quarters[s.Name], data["done_percent"] = quarter, float64(s.Done)
			text += fmt.Sprintf("is at %.0f %%", float64(s.Done))
		default:
			return
		}
		c.tell(on, a, by, gpu.Note, text, data)
	})
}

// tell publishes an event about work on a device.
func (c *Checkup) tell(on gpu.Device, a proof.Ask, by gpu.By, severity gpu.Severity, text string, data map[string]any) {
	if data == nil {
		data = map[string]any{}
	}
	if data["kind"] = string(a.Verb); a.Verb == proof.Check {
		data["kind"] = string(a.Kind)
	}
	code := gpu.EventCheck
	if a.Verb == proof.Scrub {
		code = gpu.EventScrub
	}
	c.Publish(gpu.Event{Time: time.Now(), Code: code, Severity: severity, GPU: on.UUID, By: by, Text: text, Data: data})
}

// doing returns what berth does on a device, to follow a colon.
func doing(a proof.Ask) string {
	switch a.Verb {
	case proof.Residue:
		return "berth looks for what programs left in its memory"
	case proof.Scrub:
		return "berth overwrites its memory"
	}
	return "it is being checked"
}

// noun returns a name for what a device was asked.
func noun(a proof.Ask) string {
	switch a.Verb {
	case proof.Residue:
		return "check for residue"
	case proof.Scrub:
		return "scrub"
	}
	return string(a.Kind) + " check"
}
