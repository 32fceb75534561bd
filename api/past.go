package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// PastLeases lists leases that have ended.
type PastLeases struct {
	Leases []PastLease `json:"leases" doc:"The newest end first. The daemon keeps the last 2,000 leases, and at most 500 of one user."`
	More
}

// PastLease is a lease that has ended.
type PastLease struct {
	ID      string      `json:"id"`
	Fence   uint64      `json:"fence"`
	Holder  Holder      `json:"holder"`
	Binding string      `json:"binding" enum:"process,ttl,named"`
	Granted time.Time   `json:"granted"`
	Ended   time.Time   `json:"ended"`
	How     string      `json:"how" enum:"released,expired,revoked"`
	Why     string      `json:"why,omitempty" doc:"Why the lease ended; only for its user and operators."`
	By      string      `json:"by,omitempty" doc:"The user who ended the lease; only for its user and operators. Absent if the daemon did."`
	Parts   []LeasePart `json:"parts" doc:"What the lease held on each device."`
	Peak    gpu.MiB     `json:"peak_mb" doc:"The most memory that its processes were measured to use on one device; 0: nothing was measured."`

	Energy gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero" doc:"How much energy its processes used, above what the devices draw by themselves. Absent: nothing was measured."`
}
