package api

import "github.com/berth-gpu/berth/gpu"

// Strays lists the processes that use devices under no lease.
type Strays struct {
	Orphans []Stray `json:"orphans" doc:"Processes whose lease has ended."`
	Foreign []Stray `json:"foreign" doc:"Processes that never had a lease."`
	More
}

// Stray is a process on a device under no lease.
type Stray struct {
	GPU    string           `json:"gpu" doc:"UUID of the device."`
	PID    int              `json:"pid" doc:"0 for a process of another user, unless an operator asks."`
	Name   string           `json:"name,omitempty"`
	User   string           `json:"user,omitempty"`
	Memory gpu.Opt[gpu.MiB] `json:"memory_mb,omitzero" doc:"How much memory the process uses; absent if it only has the device open."`
	Lease  string           `json:"lease,omitempty" doc:"The lease that the process belonged to until the lease ended."`
	Pod    string           `json:"pod,omitempty" doc:"UID of the Kubernetes pod that the process runs in."`

	Evidence string   `json:"evidence,omitempty" enum:"unit,service,program" doc:"Present if it fits several leases equally, so that it belongs to none: the kind of evidence."`
	Fits     []string `json:"fits,omitempty" doc:"Those leases."`
}
