// Package programs starts programs under leases: one program (berth exec), the runs of
// a plan (berth plan --run), and the workers of a batch (berth run).
//
// It decides what to ask the daemon for, when to ask again, and which environment a
// program gets. The programs are children of this process, or this process itself.
package programs
