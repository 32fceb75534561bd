package main

import "context"

// mpsClient would make the daemon ask an MPS daemon of the attacker. It is always
// skipped: MPS needs NVIDIA devices, and these devices are simulated.
func mpsClient(context.Context, *arena) (v verdict, err error) {
	v.skipped = "MPS needs an NVIDIA device; the tests of internal/process/mps play it with a control program of their own"
	return v, nil
}
