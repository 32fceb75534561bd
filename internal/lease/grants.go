package lease

import (
	"cmp"
	"iter"
	"slices"
)

// grants has the leases of a book in the order of their fences. A new grant goes to the
// end. A lease that ends leaves a gap, which is closed with others when there are more
// gaps than leases: so an end costs a search, and a walk or a page costs no sorting.
type grants struct {
	list []numbered
	gaps int
}

type numbered struct {
	fence uint64
	entry *entry // nil for a gap
}

// put adds a lease. Only the undo of an end adds one that is not the newest.
func (g *grants) put(e *entry) {
	fence := e.lease.Fence
	if last := len(g.list) - 1; last < 0 || g.list[last].fence < fence {
		g.list = append(g.list, numbered{fence, e})
		return
	}
	at, known := g.search(fence)
	if !known {
		g.list = slices.Insert(g.list, at, numbered{fence, e})
		return
	}
	if g.list[at].entry == nil {
		g.gaps--
	}
	g.list[at].entry = e
}

// remove takes out a lease.
func (g *grants) remove(e *entry) {
	at, _ := g.search(e.lease.Fence)
	g.list[at].entry = nil
	if g.gaps++; g.gaps > 32 && g.gaps > len(g.list)/2 {
		g.list = slices.DeleteFunc(g.list, func(each numbered) bool { return each.entry == nil })
		g.gaps = 0
	}
}

// get returns the lease with a fence; nil if it has ended.
func (g *grants) get(fence uint64) *entry {
	if at, known := g.search(fence); known {
		return g.list[at].entry
	}
	return nil
}

// search returns the place of a fence, or where it would be.
func (g *grants) search(fence uint64) (at int, known bool) {
	return slices.BinarySearchFunc(g.list, fence, func(each numbered, fence uint64) int { return cmp.Compare(each.fence, fence) })
}

// after yields the leases with larger fences than this one, the oldest first.
func (g *grants) after(fence uint64) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		from, known := g.search(fence)
		if known {
			from++
		}
		for _, each := range g.list[from:] {
			if each.entry != nil && !yield(each.entry) {
				return
			}
		}
	}
}

// all yields all leases, the oldest first.
func (g *grants) all(yield func(*entry) bool) {
	for _, each := range g.list {
		if each.entry != nil && !yield(each.entry) {
			return
		}
	}
}
