package placement

import "github.com/berth-gpu/berth/gpu"

// Request is what is to be placed. The caller has checked its numbers: none is
// negative.
type Request struct {
	GPUs   int     // how many devices, all different; below one means one
	Memory gpu.MiB // on each device
	Slots  int     // on each device

	Where  Where  // what the devices must be
	Policy Policy // how to choose among those that fit

	Preferred string // UUID of the device to take if it fits; empty: none
	Service   string // for affinity; empty: none

	// Refuse says why a device that fits is still not to be taken, such as
	// that somebody ahead in the queue would be delayed; empty means take it.
	// Memory is how much the request would take there: Explain also asks about
	// less than was asked for, and who refuses an amount refuses every larger
	// one too. Choose asks only about devices that it would take otherwise. Nil
	// refuses nothing.
	Refuse func(uuid string, memory gpu.MiB) string

	// Allow is as much of an amount on each device as whoever asks may have,
	// devices aside; zero: none. It is for advice only: what LargestNow finds
	// goes through it. Nil allows everything.
	Allow func(gpu.MiB) gpu.MiB
}

func (r *Request) count() int { return max(r.GPUs, 1) }
