package ledger

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
)

// user makes the n-th user a holder.
func user(n int) lease.Holder { return lease.Holder{User: fmt.Sprintf("user%d", n), UID: n} }

func by(n int) lease.Actor { return lease.Actor{Holder: user(n)} }

// want is a request of the first user for memory on one device, without
// waiting.
func want(id string, memory gpu.MiB, change ...func(*Request)) Request {
	r := Request{
		ID: id, Holder: user(1), Binding: lease.ByName,
		Place: placement.Request{Memory: memory}, Wait: gpu.Some(time.Duration(0)), EnforcedBy: "none",
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func wait(d time.Duration) func(*Request) { return func(r *Request) { r.Wait = gpu.Some(d) } }
func of(n int) func(*Request) {
	return func(r *Request) { r.Holder.User, r.Holder.UID = user(n).User, user(n).UID }
}
func slots(n int) func(*Request)    { return func(r *Request) { r.Place.Slots = n } }
func gpus(n int) func(*Request)     { return func(r *Request) { r.Place.GPUs = n } }
func at(uuid string) func(*Request) { return func(r *Request) { r.Place.Where.GPU = uuid } }
func priority(n int) func(*Request) {
	return func(r *Request) { r.Priority, r.Administrator = gpu.Some(n), true }
}
func service(name string) func(*Request) {
	return func(r *Request) { r.Holder.Service = name }
}

func ttl(d time.Duration) func(*Request) {
	return func(r *Request) { r.Binding, r.TTL = lease.ByTTL, d }
}

// held makes a process the holder, without binding the lease to it.
func (k *keeper) held(pid int) func(*Request) {
	return func(r *Request) {
		id, err := k.processes.Identify(pid)
		if err != nil {
			k.t.Fatal(err)
		}
		r.Holder.PID, r.Holder.Start, r.Holder.Boot = id.PID, id.Start, k.boot
	}
}

// bound binds the lease to a process.
func (k *keeper) bound(pid int) func(*Request) {
	return func(r *Request) {
		k.held(pid)(r)
		r.Binding = lease.ByProcess
	}
}
