package placement

import "slices"

// few is the largest number of candidates among which the search for the best set is
// exact. It covers every machine sold as one piece; beyond it the search is greedy.
const few = 16

// candidate is a device that fits, with what decides between it and others.
// Smaller is better: first tier, then key, then position.
type candidate struct {
	tier     int32
	key      Key
	position int
}

func compare(a, b candidate) int {
	switch {
	case a.tier != b.tier:
		return int(a.tier - b.tier)
	case a.key < b.key:
		return -1
	case a.key > b.key:
		return 1
	}
	return a.position - b.position
}

// scratch is space that decisions reuse.
type scratch struct {
	models     []bool
	candidates []candidate
	set        []int
	best       []int
	rank       []int8 // by position, from one; zero between decisions
	pull       []pull // by position; zero between decisions
	touched    []int
	only       []bool // by position
}

// several chooses count devices, all or nothing. It prefers the set with the preferred
// device in it, if that fits; then the one with the fewest devices that get too hot; then
// the one whose weakest link is strongest, because the slowest pair sets the pace of work
// that spans devices; then the one with the best links in all; then the one whose members
// come first in affinity and policy. The result is in order of position, lies in scratch
// space, and is nil if fewer than count devices fit.
func (s *Snapshot) several(n *need, count int) []int {
	fit := s.candidatesFor(n, max(count, few))
	if fit < count {
		return nil
	}
	if fit <= few {
		s.exact(n, count)
	} else {
		s.greedy(n, count)
	}
	set := s.scratch.best
	slices.Sort(set)
	return set
}

// candidatesFor puts the best devices that fit into scratch space, best first, at most
// keep of them. It returns how many fit; beyond keep it may not count them all.
func (s *Snapshot) candidatesFor(n *need, keep int) int {
	list, fit := s.scratch.candidates[:0], 0
	limit := noKey // keys from here on do not matter
	for i := s.below(n, 0, limit); i >= 0; i = s.below(n, i+1, limit) {
		if !n.plain && !s.takes(n, i) {
			continue
		}
		fit++
		c := s.candidate(n, i)
		if len(list) == keep {
			if compare(c, list[keep-1]) > 0 {
				continue
			}
			list = list[:keep-1]
		}
		list = insert(list, c)
		if last := list[len(list)-1]; fit > keep && n.preferred < 0 && (last.tier == 0 || len(n.runs) == 0 && last.tier < warmTier) {
			limit = last.key // no device is in a better tier than the last of the list
		}
	}
	s.scratch.candidates = list
	return fit
}

// below returns the next device with room whose key is below a limit, or -1 if there is
// none. It is a separate function because nearly all the time goes into this loop, and
// with little around it everything stays in registers.
func (s *Snapshot) below(n *need, from int, limit Key) int {
	memory, slots := n.memory, n.slots
	for from < len(n.keys) {
		b := from / block
		end := min((b+1)*block, len(n.keys))
		if n.lows[b] < limit {
			keys := n.keys[from:end]
			room, free := s.room[from:][:len(keys)], s.free[from:][:len(keys)]
			for i, key := range keys {
				if key < limit && room[i] >= memory && int(free[i]) >= slots {
					return from + i
				}
			}
		}
		from = end
	}
	return -1
}

// insert puts a candidate in its place. Lists are short, and later candidates are usually
// worse.
func insert(list []candidate, c candidate) []candidate {
	list = append(list, c)
	at := len(list) - 1
	for ; at > 0 && compare(c, list[at-1]) < 0; at-- {
		list[at] = list[at-1]
	}
	list[at] = c
	return list
}

func (s *Snapshot) candidate(n *need, i int) candidate {
	c := candidate{key: n.keys[i], position: i}
	leases := n.runs.leases(i)
	switch {
	case i == n.preferred:
		c.tier = -1
	case n.apart:
		c.tier = leases
	case leases == 0:
		c.tier = 1
	}
	if i != n.preferred && s.warm(n, i) {
		c.tier += warmTier
	}
	return c
}

// hasPreferred reports whether the first candidate is the preferred device, which must
// then be in the set.
func (s *Snapshot) hasPreferred(n *need) bool {
	return n.preferred >= 0 && len(s.scratch.candidates) > 0 && s.scratch.candidates[0].position == n.preferred
}
