package placement

import "slices"

// few is up to how many candidates the best set is searched for exactly. It
// covers every machine sold as one piece; beyond it the search is greedy.
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

// scratch is space that decisions use and leave for the next one.
type scratch struct {
	models     []bool
	candidates []candidate
	set        []int
	best       []int
	rank       []int8 // by position, from one; zero between decisions
	pull       []pull // by position; zero between decisions
	touched    []int
}

// several chooses count devices, all or nothing. The set is the one with the
// preferred device in it, if that fits; among those, the one whose weakest link
// is strongest, because the slowest pair sets the pace of work that spans
// devices; then the one with the best links in all; then the one whose members
// come first in affinity and policy. The answer is in order of position, lies
// in scratch space, and is nil if fewer than count devices fit.
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

// candidatesFor leaves the best devices that fit in scratch space, best first,
// at most keep of them, and returns how many fit; beyond keep it may not count
// them all.
func (s *Snapshot) candidatesFor(n *need, keep int) int {
	list, fit := s.scratch.candidates[:0], 0
	wished := len(n.runs) > 0 || n.preferred >= 0
	worst := noKey // of a full list
	for i, key := range n.keys {
		if key >= worst && fit > keep && !wished || !s.takes(n, i) {
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
		at, _ := slices.BinarySearchFunc(list, c, compare)
		list = slices.Insert(list, at, c)
		if len(list) == keep {
			worst = list[keep-1].key
		}
	}
	s.scratch.candidates = list
	return fit
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
	return c
}

// hasPreferred reports whether the first candidate is the preferred device,
// which then must be in the set.
func (s *Snapshot) hasPreferred(n *need) bool {
	return n.preferred >= 0 && len(s.scratch.candidates) > 0 && s.scratch.candidates[0].position == n.preferred
}
