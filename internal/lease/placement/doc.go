// Package placement chooses the device, or the set of devices, for a request.
//
// It is pure: the caller owns a Snapshot of the machine, keeps it up to date
// one device at a time, and asks Choose. When nothing fits, Explain says why,
// device by device.
//
// Hard conditions come first: the constraints of the request, the room on the
// device, its state. Among the devices that pass, the wishes decide, in this
// order:
//
//  1. the preferred device, if it is one of them;
//  2. devices that stay below temp_normal with the request on them (see Warmth),
//     except under policies that fill devices;
//  3. for a request for several devices, the set with the best links;
//  4. devices on which the service of the request has the fewest leases, or, for
//     a service whose leases belong together, those on which it has any;
//  5. the policy: slots, then what was measured lately (see Recent);
//  6. the position of the device, so that the same snapshot and the same request
//     always give the same answer.
//
// Choose reads one number per device and policy, kept up to date by Update,
// and allocates nothing. To add a policy, see docs/develop/adding-a-policy.md.
//
// Pure: no clock, no I/O.
package placement
