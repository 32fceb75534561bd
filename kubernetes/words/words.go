// Package words has the names that Kubernetes and the driver agree on.
//
// None of them can change while a cluster has claims.
package words

// Driver is the name of the driver: in slices, in device classes, and as the key of
// parameters. The names of its sockets must fit into a path, so it is short.
const Driver = "gpu.berth.dev"

// Parameters are the group, the version and the kind of the opaque parameters of a
// claim or a class.
const (
	ParametersVersion = Driver + "/v1alpha1"
	ParametersKind    = "Lease"
)

// CDIVendor and CDIClass make the name of a lease in the Container Device Interface:
// berth.dev/lease=CLAIM-UID.
const (
	CDIVendor = "berth.dev"
	CDIClass  = "lease"
)

// The capacities of a device.
const (
	Memory = "memory"
	Slots  = "slots"
)

// The keys of taints, each after the name of the driver and a slash.
const (
	Quarantine = "quarantine" // the device failed
	Lost       = "lost"       // it is off the bus
	Silent     = "silent"     // it does not answer
	Away       = "daemon"     // the daemon does not answer
	Hot        = "hot"        // above temp_throttle
	TooHot     = "too-hot"    // above temp_critical
	Probation  = "probation"  // it runs with fewer slots, after a failure
	Drain      = "drain"      // somebody takes it out of use
)

// The types of the conditions of a device in the status of a claim.
const (
	Ready       = "Ready"
	Enforced    = "Enforced"
	WithinLimit = "WithinLimit"
	OnDevice    = "OnDevice" // only of claims that allow to be parked
)
