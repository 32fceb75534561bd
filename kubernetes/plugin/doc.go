// Package plugin is the driver of a node: it prepares claims for kubelet, publishes
// the devices of the daemon, and reports their health.
//
// A claim is a lease whose id is the UID of the claim, and the journal of the daemon
// is the only record of what is held. A state file says which claims this node has
// prepared, so that a driver that was killed at any line can go on:
//
//	prepare    read the claim · state file · lease · read the claim again · CDI file
//	unprepare  CDI file away · lease away · state file away
//	reconcile  each state file has its lease and its CDI file while its claim is
//	           allocated here; what belongs to no claim is released
//
// One lock file for all of it lets two drivers work side by side during a rollout.
package plugin
