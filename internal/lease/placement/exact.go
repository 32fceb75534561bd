package placement

import "math"

// search goes through the sets of count candidates, in lexicographic order of their
// ranks, and keeps the best. It leaves a branch as soon as the links that the branch
// could still add would not make it better; where all links are alike, that is almost at
// once.
type search struct {
	links     [few][few]int32 // by rank
	strongest int32           // of all links
	size      int             // number of candidates
	cool      int             // number of candidates that do not get too hot; they come first
	count     int             // number of devices wanted
	set       [few]int8       // ranks chosen so far
	best      [few]int8
	score     score // of best
	found     bool
}

// score compares sets: fewer devices that get too hot, then a larger weakest
// link, then a larger sum of links, then a smaller sum of ranks is better.
type score struct {
	warm    int32
	weakest int32
	total   int32
	ranks   int32
}

func (a score) betterThan(b score) bool {
	switch {
	case a.warm != b.warm:
		return a.warm < b.warm
	case a.weakest != b.weakest:
		return a.weakest > b.weakest
	case a.total != b.total:
		return a.total > b.total
	}
	return a.ranks < b.ranks
}

// exact finds the best set among all candidates, of which there are at most
// few, and leaves it in scratch space.
func (s *Snapshot) exact(n *need, count int) {
	list := s.scratch.candidates
	q := search{size: len(list), count: count}
	s.rankLinks(&q)
	empty := score{weakest: math.MaxInt32}
	if s.hasPreferred(n) {
		q.set[0] = 0
		q.extend(1, 1, empty)
	} else {
		q.extend(0, 0, empty)
	}
	s.scratch.best = s.scratch.best[:0]
	for _, rank := range q.best[:count] {
		s.scratch.best = append(s.scratch.best, list[rank].position)
	}
}

// rankLinks puts the links between candidates into the search, by rank.
func (s *Snapshot) rankLinks(q *search) {
	rank := s.scratch.rank
	for i, c := range s.scratch.candidates {
		rank[c.position] = int8(i + 1)
		if c.tier < warmTier {
			q.cool = i + 1
		}
	}
	for i, c := range s.scratch.candidates {
		for _, l := range s.links[c.position] {
			if j := rank[l.to]; j > 0 {
				q.links[i][j-1] = l.strength
				q.strongest = max(q.strongest, l.strength)
			}
		}
	}
	for _, c := range s.scratch.candidates {
		rank[c.position] = 0
	}
}

// extend tries every candidate from rank on as the next member; have is the
// number of members so far.
func (q *search) extend(rank, have int, now score) {
	if have == q.count {
		if !q.found || now.betterThan(q.score) {
			q.found, q.score, q.best = true, now, q.set
		}
		return
	}
	for next := rank; next <= q.size-(q.count-have); next++ {
		if q.found && !q.hope(next, have, now).betterThan(q.score) {
			return // candidates after it have even less hope
		}
		with := now
		with.ranks += int32(next)
		if next >= q.cool {
			with.warm++
		}
		for _, member := range q.set[:have] {
			strength := q.links[member][next]
			with.weakest = min(with.weakest, strength)
			with.total += strength
		}
		q.set[have] = int8(next)
		q.extend(next+1, have+1, with)
	}
}

// hope returns the best score that a set can still reach: every link to come is
// as strong as the strongest, every member to come the next in rank.
func (q *search) hope(rank, have int, now score) score {
	missing := q.count - have
	pairs := missing*have + missing*(missing-1)/2
	now.warm += int32(missing - min(max(q.cool-rank, 0), missing))
	now.weakest = min(now.weakest, q.strongest)
	now.total += q.strongest * int32(pairs)
	now.ranks += int32(missing*rank + missing*(missing-1)/2)
	return now
}
