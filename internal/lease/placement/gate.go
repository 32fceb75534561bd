package placement

import "github.com/berth-gpu/berth/gpu"

// Gate holds devices back from a request although they fit: somebody ahead in
// the queue might be delayed. A nil Gate holds nothing back.
type Gate interface {
	// Refuse returns why a device that fits must not be taken, or "" if it may.
	// Memory is how much the request would take there: Explain also asks about
	// less than was asked for. A gate that refuses an amount refuses every
	// larger one too. Choose asks only about devices that it would take
	// otherwise.
	Refuse(uuid string, memory gpu.MiB) string

	// Allow returns as much of an amount on each device as the asker may have,
	// devices aside; zero: none. It is for advice only: what LargestNow finds
	// goes through it.
	Allow(memory gpu.MiB) gpu.MiB
}
