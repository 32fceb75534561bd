package mover

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// event returns an event about the memory of a lease.
func (r *record) event(code gpu.EventCode, severity gpu.Severity, text string, data map[string]any) gpu.Event {
	data["fence"] = r.Fence
	return gpu.Event{Time: time.Now(), Code: code, Severity: severity, GPU: r.GPU, Lease: r.Key.ID, User: r.User, By: r.By, Text: text, Data: data}
}

// tellApart publishes an event about a problem with the memory of a lease. Why may name
// processes, so other users do not see it.
func (p *Mover) tellApart(r *record, code gpu.EventCode, severity gpu.Severity, text, why string) {
	e := r.event(code, severity, text+": "+why, map[string]any{"failed": true})
	e.Public = text
	p.Publish(e)
}

// warning returns the event that warns the holder of a lease that it is about to be
// parked.
func (o order) warning(held *lease.Lease, at time.Time) gpu.Event {
	return gpu.Event{
		Time: time.Now(), Code: gpu.EventParking, Severity: gpu.Warning, GPU: held.Parts[0].GPU, Lease: held.ID, User: held.Holder.User,
		Text: fmt.Sprintf("%s is going to be parked in %v%s", held.ID, max(time.Until(at), 0).Round(100*time.Millisecond), because(o.why)),
		Data: map[string]any{"fence": held.Fence, "memory_mb": held.Parts[0].Memory, "reason": o.why, "for": o.wanter.ID, "source": string(o.source), "at": at},
	}
}

// parked returns the event that says that a lease is parked.
func (r *record) parked(o *order, took, steps time.Duration) gpu.Event {
	host := memory(r.Processes)
	text := fmt.Sprintf("%s is parked: %s of its memory are in the memory of the machine", o.key.ID, host)
	if host == 0 {
		text = fmt.Sprintf("%s is parked: its programs had no memory on the device", o.key.ID)
	}
	return r.event(gpu.EventParked, gpu.Note, text, figures(host, took, steps, map[string]any{"host_mb": host, "reason": o.why, "unshared_by": string(r.Ground)}))
}

// reason returns why berth refused something, to follow a colon.
func reason(why error) string {
	if refusal := (*move.RefusedError)(nil); errors.As(why, &refusal) {
		return refusal.Why
	}
	return why.Error()
}

// suspend makes the pacer let the processes of a lease run, until the lease is back. After
// an error, a later daemon could continue them.
func (p *Mover) suspend(r *record) error {
	if p.Pacer == nil || r.paceless {
		return nil
	}
	r.paceless = true
	return p.Pacer.Suspend(r.Fence) // it waits until nothing is stopped
}

// figures adds to the data of an event how much memory moved, how long that took as a
// whole, and how fast the steps of the driver were.
func figures(memory gpu.MiB, took, steps time.Duration, data map[string]any) map[string]any {
	data["memory_mb"], data["took_seconds"], data["moving_seconds"] = memory, seconds(took), seconds(steps)
	if steps > 0 {
		data["gib_per_second"] = math.Round(100*float64(memory)/1024/steps.Seconds()) / 100
	}
	return data
}

func seconds(d time.Duration) float64 { return math.Round(1000*d.Seconds()) / 1000 }

// because returns a reason to follow a sentence.
func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}
