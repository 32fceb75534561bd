package placement

import "github.com/berth-gpu/berth/gpu"

// Gate refuses devices that fit a request, because the request might delay another one
// ahead in the queue. A nil Gate refuses nothing.
type Gate interface {
	// Refuse returns why the request must not take a device that fits, or "" if it may.
	// Memory is how much the request would take there: Explain also asks about less than
	// the request does. A gate that refuses an amount refuses every larger one too.
	// Choose calls Refuse only for devices that it would take otherwise.
	Refuse(uuid string, memory gpu.MiB) string

	// Allow returns how much of an amount on each device the request may have, devices
	// aside; zero if nothing. It is for advice only: LargestNow passes its result through
	// it.
	Allow(memory gpu.MiB) gpu.MiB
}
