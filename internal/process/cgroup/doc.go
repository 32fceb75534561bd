// Package cgroup keeps programs away from GPUs that they have not leased: it
// moves a process into a control group of its own, in which a filter lets only
// the leased GPUs be opened (cgroup v2, BPF_PROG_TYPE_CGROUP_DEVICE).
//
// Processes that the process starts are in the group too.
//
// The group lies below the one that the process was in, so limits and filters there still
// apply. Its name consists of berth, the fence of the lease, and a tag of the daemon:
// berth-12-3f9a1c02. The filter stays if the daemon ends, even by kill -9; the next
// daemon finds its groups by their names and removes them when their leases have ended.
package cgroup
