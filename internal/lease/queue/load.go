package queue

import (
	"math"

	"github.com/berth-gpu/berth/gpu"
)

// Load is the memory and the slots that a lease or a request takes of one device.
type Load struct {
	Memory gpu.MiB
	Slots  int
}

// AnyLoad is a bound that every load is within.
var AnyLoad = Load{math.MaxInt64, math.MaxInt}

// Whole is the load of a request that leaves no room on any device.
var Whole = Load{Memory: 1 << 40, Slots: 1 << 30}

// memory returns the load as amounts, with memory as the respect that counts.
func (l Load) memory() amounts { return amounts{this: int64(l.Memory), other: int64(l.Slots)} }

// slots returns the load as amounts, with slots as the respect that counts.
func (l Load) slots() amounts { return amounts{this: int64(l.Slots), other: int64(l.Memory)} }

// Within reports whether the load fits into a room.
func (l Load) Within(room Load) bool { return l.Memory <= room.Memory && l.Slots <= room.Slots }

// Smaller returns the smaller memory and the smaller slots of two loads.
func (l Load) Smaller(m Load) Load { return Load{min(l.Memory, m.Memory), min(l.Slots, m.Slots)} }

// Larger returns the larger memory and the larger slots of two loads.
func (l Load) Larger(m Load) Load { return Load{max(l.Memory, m.Memory), max(l.Slots, m.Slots)} }
