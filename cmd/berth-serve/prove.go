package main

import (
	"fmt"
	"os"

	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/nvml"
)

// proveCommand makes this program the helper process that checks a device, or moves the
// memory of processes. It is not a command for people: the daemon speaks to it.
const proveCommand = "prove"

// prove does what the daemon asks on standard input, and returns the exit code.
func prove() int {
	err := check.Process{
		In: os.Stdin, Out: os.Stdout, Gone: func() { os.Exit(1) },
		Limit: check.Confine, Open: check.OpenCard, Checkpoints: check.OpenCheckpoints, Gauges: gauges,
	}.Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// gauges returns a reader of a device through NVML, or nil if there is none.
func gauges(uuid string) check.Gauges {
	g, err := nvml.OpenGauges(uuid)
	if err != nil {
		return nil
	}
	return g
}
