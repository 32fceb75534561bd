package placement

import "math"

// pull describes the links between a device and the members of a set.
type pull struct {
	links   int32 // number of members that the device has a link to
	weakest int32 // of those links
	total   int32 // of those links
	member  bool
}

// greedy grows a set around each of the first few candidates and keeps the best; it stops
// at a set that cannot be beaten. If the preferred device fits, or if more than few
// devices are wanted, it grows one set only, around the first candidate. A set grows by a
// device that stays below temp_normal, then by the one with the best links to its
// members, then by the first in affinity and policy.
func (s *Snapshot) greedy(n *need, count int) {
	seeds := few
	if count > few || s.hasPreferred(n) {
		seeds = 1
	}
	var kept score
	for at := range seeds {
		now := s.grow(n, s.scratch.candidates[at].position, count)
		if at == 0 || now.betterThan(kept) {
			kept = now
			s.scratch.best = append(s.scratch.best[:0], s.scratch.set...)
		}
		if kept.warm == 0 && kept.weakest >= s.strongest {
			return
		}
	}
}

// grow leaves the set around one device in scratch space.
func (s *Snapshot) grow(n *need, seed, count int) score {
	c := &s.scratch
	c.set, c.touched = c.set[:0], c.touched[:0]
	now := score{weakest: math.MaxInt32}
	for next := seed; ; next = s.bestLinked(n) {
		if len(c.set) > 0 {
			now.weakest = min(now.weakest, s.weakestTo(next))
			now.total += c.pull[next].total
		}
		if next != n.preferred && s.warm(n, next) {
			now.warm++
		}
		s.join(next)
		if len(c.set) == count {
			break
		}
	}
	for _, i := range c.touched {
		c.pull[i] = pull{}
	}
	return now
}

// join makes a device a member, and updates the pull of the devices that it has links to.
func (s *Snapshot) join(i int) {
	c := &s.scratch
	c.set = append(c.set, i)
	c.touched = append(c.touched, i)
	c.pull[i].member = true
	for _, l := range s.links[i] {
		p := &c.pull[l.to]
		if p.links == 0 {
			p.weakest = l.strength
			c.touched = append(c.touched, int(l.to))
		}
		p.links++
		p.weakest = min(p.weakest, l.strength)
		p.total += l.strength
	}
}

// weakestTo returns the weakest link from a device to the members.
func (s *Snapshot) weakestTo(i int) int32 {
	if int(s.scratch.pull[i].links) < len(s.scratch.set) {
		return 0
	}
	return s.scratch.pull[i].weakest
}

// bestLinked returns the next device for the set: of those that stay below temp_normal,
// the one with the best links to the set, or the first candidate that is not in it yet.
// There always is one, because there are at least as many candidates as devices wanted.
func (s *Snapshot) bestLinked(n *need) int {
	c := &s.scratch
	at := -1
	for _, first := range c.candidates {
		if !c.pull[first.position].member {
			at = first.position
			break
		}
	}
	weakest, best := s.weakestTo(at), s.candidate(n, at)
	for _, i := range c.touched {
		p := &c.pull[i]
		if p.member || i == at || best.tier < warmTier && s.warm(n, i) {
			continue
		}
		// Compare links first: they are at hand, and decide most cases.
		its := s.weakestTo(i)
		alike := its == weakest && p.total == c.pull[at].total
		if !alike && (its < weakest || its == weakest && p.total < c.pull[at].total) || !s.takes(n, i) {
			continue
		}
		if next := s.candidate(n, i); !alike || compare(next, best) < 0 {
			at, weakest, best = i, its, next
		}
	}
	return at
}
