package placement

import (
	"math/bits"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Usual is a kind of request that is asked for again and again.
type Usual struct {
	GPUs   int
	Slots  int
	Memory gpu.MiB // on each device, rounded up to two significant bits
	Count  int     // how often it was asked for lately
}

const (
	usualKinds = 16   // kinds that a Requests tells apart
	usualSpan  = 1024 // count of a kind at which all counts are halved
)

// Requests counts the usual requests on a machine, for policies that keep room for them.
// It keeps a fixed number of kinds; a new kind takes the place of the rarest. The zero
// value is ready to use.
type Requests struct {
	kinds [usualKinds]Usual
	n     int
}

// Add counts a request.
func (u *Requests) Add(r *lease.Request) {
	kind := Usual{GPUs: r.Devices(), Slots: r.Slots, Memory: rounded(r.Memory)}
	at := slices.IndexFunc(u.kinds[:u.n], func(k Usual) bool {
		return k.GPUs == kind.GPUs && k.Slots == kind.Slots && k.Memory == kind.Memory
	})
	switch {
	case at >= 0:
	case u.n < usualKinds:
		at = u.n
		u.n++
		u.kinds[at] = kind
	default:
		at = u.n - 1
		kind.Count = u.kinds[at].Count // an upper bound: it was asked for at most as often as the kind it replaces
		u.kinds[at] = kind
	}
	u.kinds[at].Count++
	if u.kinds[at].Count >= usualSpan {
		for i := range u.kinds[:u.n] {
			u.kinds[i].Count = (u.kinds[i].Count + 1) / 2
		}
	}
	for ; at > 0 && u.kinds[at].Count > u.kinds[at-1].Count; at-- {
		u.kinds[at], u.kinds[at-1] = u.kinds[at-1], u.kinds[at]
	}
}

// List returns the kinds, most frequent first. The list is valid until the next Add.
func (u *Requests) List() []Usual {
	if u == nil {
		return nil
	}
	return u.kinds[:u.n]
}

// rounded rounds up to two significant bits, so that sizes that differ by a few per cent
// count as one kind.
func rounded(m gpu.MiB) gpu.MiB {
	if m <= 4 {
		return max(m, 0)
	}
	step := gpu.MiB(1) << (bits.Len64(uint64(m)) - 2)
	return (m + step - 1) / step * step
}
