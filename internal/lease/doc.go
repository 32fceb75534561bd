// Package lease has the rules of leasing: the life of a lease, the order of the
// queue, the sum that says how much of a device is left, and what people are told.
//
// It is pure. A Book keeps the state; the only way to change a lease or the
// queue is
//
//	effect, err := book.Apply(change, now)
//
// Apply first verifies the whole change and then commits it: after an error, the
// book is unchanged.
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
// Leases are durable: every Effect on a lease becomes a stored.Entry, and
// replaying the entries gives an equal book. Requests, measurements and the
// capacities of devices are not durable; after a restart clients ask again, and
// the daemon measures the machine again.
//
// A book belongs to one goroutine. A book never changes a *Lease or *Request that
// it has, but replaces it by another, so any goroutine may read what a book
// returns for as long as it likes.
//
// Pure: no clock, no I/O.
package lease
