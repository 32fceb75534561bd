package main

import "context"

// mpsClient would let the daemon ask an MPS daemon of the attacker's. MPS is for
// NVIDIA devices only, and those here are simulated.
func mpsClient(context.Context, *arena) (v verdict, err error) {
	v.skipped = "MPS needs an NVIDIA device; the tests of internal/mps play it with a control program of their own"
	return v, nil
}
