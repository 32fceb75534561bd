// Package wire defines the format of the lease stream: requests and answers as frames
// on a connection that began as HTTP, and the JSON in them.
//
// Taking a lease this way costs a fraction of what HTTP costs, and several calls can be
// under way at once. docs/reference/lease-protocol.md specifies it byte for byte.
//
// Pure: no clock, no I/O.
package wire

// A client asks for a stream with POST to Path and Upgrade: Protocol.
const (
	Protocol = "berth-lease/1"
	Path     = "/api/leases/stream"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds that a client sends.
const (
	Acquire Kind = 1 // body: api.LeaseRequest
	Release Kind = 2 // body: api.Release
	Renew   Kind = 3 // body: api.Renewal
	Cancel  Kind = 4 // no body; stop waiting for the call with this number
)

// The kinds that the daemon answers with, under the number of the call.
const (
	Done    Kind = 0x81 // body: api.Lease, or api.Ended for a release
	Refused Kind = 0x82 // body: api.Problem
)
