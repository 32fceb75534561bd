package ledger

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// user makes the n-th user a holder.
func user(n int) lease.Holder { return lease.Holder{User: fmt.Sprintf("user%d", n), UID: n} }

func by(n int) access.Actor { return actor(user(n)) }

// actor returns the user of a holder, as they ask for changes.
func actor(h lease.Holder) access.Actor {
	return access.Actor{User: h.User, UID: h.UID, Door: access.Socket, Role: access.User}
}

// admin returns an administrator with a user id.
func admin(uid int) access.Actor {
	return access.Actor{User: "root", UID: uid, Door: access.Socket, Role: access.Admin}
}

// want is a request of the first user for memory on one device, without
// waiting.
func want(id string, memory gpu.MiB, change ...func(*lease.Request)) lease.Request {
	r := lease.Request{
		ID: id, Holder: user(1), By: by(1), Binding: lease.ByName,
		Memory: memory, Wait: gpu.Some(time.Duration(0)), Terms: lease.Terms{EnforcedBy: "none"},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func wait(d time.Duration) func(*lease.Request) {
	return func(r *lease.Request) { r.Wait = gpu.Some(d) }
}
func of(n int) func(*lease.Request) {
	return func(r *lease.Request) { r.Holder.User, r.Holder.UID, r.By = user(n).User, user(n).UID, by(n) }
}
func slots(n int) func(*lease.Request)    { return func(r *lease.Request) { r.Slots = n } }
func gpus(n int) func(*lease.Request)     { return func(r *lease.Request) { r.GPUs = n } }
func at(uuid string) func(*lease.Request) { return func(r *lease.Request) { r.Where.GPU = uuid } }
func priority(n int) func(*lease.Request) {
	return func(r *lease.Request) { r.AskedPriority, r.By.Role = gpu.Some(n), access.Admin }
}
func service(name string) func(*lease.Request) {
	return func(r *lease.Request) { r.Holder.Service = name }
}

func ttl(d time.Duration) func(*lease.Request) {
	return func(r *lease.Request) { r.Binding, r.TTL = lease.ByTTL, d }
}

// held makes a process the holder, without binding the lease to it.
func (k *keeper) held(pid int) func(*lease.Request) {
	return func(r *lease.Request) {
		id, err := k.census.Identify(pid)
		if err != nil {
			k.t.Fatal(err)
		}
		r.Holder.PID, r.Holder.Start, r.Holder.Boot = id.PID, id.Start, k.boot
	}
}

// bound binds the lease to a process.
func (k *keeper) bound(pid int) func(*lease.Request) {
	return func(r *lease.Request) {
		k.held(pid)(r)
		r.Binding = lease.ByProcess
	}
}
