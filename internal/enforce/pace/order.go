package pace

import (
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// order is a message from the daemon to the guardian, one line of JSON. An order without
// a lease says only that the daemon lives.
type order struct {
	Lease  uint64          `json:"lease,omitempty"`  // its fence
	In     kinship.Mandate `json:"in,omitzero"`      // in whose name
	Stop   []process.ID    `json:"stop,omitempty"`   // stop all of these that the mandate covers, or none
	Millis int64           `json:"millis,omitempty"` // continue them after this time
	Again  bool            `json:"again,omitempty"`  // they join those of the lease that are stopped already
	Free   bool            `json:"free,omitempty"`   // continue the stopped processes of the lease, or of all leases if none is named
}

// report is a message from the guardian to the daemon.
type report struct {
	Lease uint64 `json:"lease"`
	// The answer to an order to stop: how many processes were stopped, or why none was
	// stopped.
	Answer  bool   `json:"answer,omitempty"`
	Stopped int    `json:"stopped,omitempty"`
	Refused string `json:"refused,omitempty"`
	// The end of a pause, in nanoseconds since 1970.
	From  int64 `json:"from,omitempty"`
	Until int64 `json:"until,omitempty"`
}
