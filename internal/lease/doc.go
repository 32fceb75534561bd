// Package lease holds the rules of who has what: the life of a lease, the order
// of the queue, and the sum that says how much of a device is left. It is pure.
// A Book is the state; the only way to change who holds what is
//
//	effect, err := book.Apply(change, now)
//
// which first verifies the whole change and then commits the whole of it: an
// error means that nothing happened.
//
//	          Ask            Grant                Release
//	(nobody) ─────▶ waiting ───────▶ active ──────────────────▶ (nobody)
//	                  │       ▲      │   ▲       Expire, Revoke      ▲
//	         Withdraw │       │ Park │   │ Resume                    │
//	          TimeOut ▼       │      ▼   │                           │
//	              (nobody)    │     parked ──────────────────────────┘
//	                          │
//	(nobody) ─────────────────┘ Grant without waiting; Renew moves the end
//
// What happens to leases is durable: every Effect that is not about waiting
// becomes a record.Record, and replaying the records gives an equal book. Requests,
// measurements and the capacities of devices are not; after a restart clients
// ask again, and the machine is measured again.
//
// A book belongs to one goroutine. A *Lease or *Request that is in a book is
// never changed, only replaced by another, so what a book hands out may be read
// by anybody for as long as they like.
package lease
