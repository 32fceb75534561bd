package api

import "time"

// Node is one machine of a cluster, as the Kubernetes driver on it sees the daemon
// there. The driver serves it at /node.
type Node struct {
	Name   string     `json:"node" doc:"Name of the node in Kubernetes."`
	Driver string     `json:"driver_version"`
	At     time.Time  `json:"at" doc:"When the driver last heard from the daemon."`
	Down   string     `json:"down,omitempty" doc:"Why the daemon does not answer, in one sentence; what follows is then what the driver saw last. Absent: it answers."`
	Status *StatusAll `json:"status,omitempty" doc:"Absent: the driver has not seen the daemon yet."`
	Leases []PodLease `json:"leases" doc:"The oldest grant first, without processes."`
}

// PodLease is a lease on a node, and the pods that it is for.
type PodLease struct {
	Lease
	Namespace string   `json:"namespace,omitempty" doc:"Absent, like claim and pods, for a lease that is not for a claim."`
	Claim     string   `json:"claim,omitempty" doc:"Name of the ResourceClaim."`
	Pods      []string `json:"pods,omitempty" doc:"Names of the pods that use the claim."`
}

// Nodes describes several machines. berth status and berth leases print it with --json
// when they look at more than one.
type Nodes struct {
	Nodes []Node `json:"nodes" doc:"By name. One that does not answer has down, and no status."`
}
