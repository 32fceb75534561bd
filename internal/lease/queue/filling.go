package queue

import (
	"cmp"
	"math"
	"slices"
)

// filling finds how full a device can get in one respect, memory or slots, with at least
// one of the requests ahead on it and within its room in both respects.
type filling struct {
	room   amounts
	things []thing // what may be on the device: the largest first, of equal ones the one with less of the other
	total  amounts // of things
	step   int64   // the greatest common divisor of things: sums are multiples of it
	most   int64   // how full the device can get with a request ahead on it; negative if there is none
	rises  []rise  // how most grew
	goal   int64   // no sum in the present search can be larger
}

// amounts holds an amount in the respect that counts and one in the other respect.
type amounts struct{ this, other int64 }

func (a amounts) plus(b amounts) amounts { return amounts{a.this + b.this, a.other + b.other} }

func (a amounts) within(room amounts) bool { return a.this <= room.this && a.other <= room.other }

// thing is a holding or a request ahead.
type thing struct {
	amounts
	ahead int   // the index of the request; nobody for a holding
	rest  int64 // the sum of this from here to the end
	least int64 // the least of other from here to the end
}

// rise is a set of things that fills the device up to most.
type rise struct {
	most  int64
	first int // the first request ahead in the set
}

// nobody is the index that stands for no request.
const nobody = math.MaxInt

// begin empties f and sets its room.
func (f *filling) begin(room amounts) {
	*f = filling{room: room, things: f.things[:0], rises: f.rises[:0], most: -1}
}

// put puts a holding into the room. The caller calls sort after the last one.
func (f *filling) put(a amounts) { f.things = append(f.things, thing{amounts: a, ahead: nobody}) }

// sort makes things ready for add: it sorts them and leaves out those that never
// matter.
func (f *filling) sort() {
	slices.SortFunc(f.things, func(a, b thing) int { return compareAmounts(a.amounts, b.amounts) })
	kept, alike := f.things[:0], 0
	for _, t := range f.things {
		if len(kept) == 0 || kept[len(kept)-1].amounts != t.amounts {
			alike = 0
		}
		if alike++; alike <= f.fitting(t.amounts) {
			kept = append(kept, t)
			f.total = f.total.plus(t.amounts)
			f.step = divisor(f.step, t.this)
		}
	}
	f.things = kept
	for i := len(kept) - 1; i >= 0; i-- {
		f.count(i)
	}
}

func compareAmounts(a, b amounts) int {
	return cmp.Or(cmp.Compare(b.this, a.this), cmp.Compare(a.other, b.other))
}

// count computes the sums of the thing at i from those of the next one.
func (f *filling) count(i int) {
	t := &f.things[i]
	t.rest, t.least = t.this, t.other
	if i+1 < len(f.things) {
		t.rest += f.things[i+1].rest
		t.least = min(t.least, f.things[i+1].least)
	}
}

// fitting returns how many things with these amounts fit on the empty device. It returns
// 0 for a thing that takes nothing, because that never matters.
func (f *filling) fitting(a amounts) int {
	n := int64(0)
	switch {
	case !a.within(f.room):
	case a.this > 0 && a.other > 0:
		n = min(f.room.this/a.this, f.room.other/a.other)
	case a.this > 0:
		n = f.room.this / a.this
	case a.other > 0:
		n = f.room.other / a.other
	}
	return int(n)
}

// add adds a request ahead, and raises most if the device can get fuller with it. It
// reports false if neither this request nor another one like it ever matters.
func (f *filling) add(a amounts, ahead int, steps *int) bool {
	if !a.within(f.room) {
		return false
	}
	at, _ := slices.BinarySearchFunc(f.things, a, func(t thing, a amounts) int { return compareAmounts(t.amounts, a) })
	alike := 0
	for fits := f.fitting(a); alike < fits && at+alike < len(f.things) && f.things[at+alike].amounts == a; {
		alike++
	}
	enough := alike == f.fitting(a)
	if enough && alike > 0 && f.things[at].ahead != nobody {
		return false // a set with this request is as full with one like it
	}
	if f.most < f.room.this {
		f.search(a, ahead, steps)
	}
	if enough {
		if alike > 0 {
			f.things[at].ahead = ahead
		}
		return true
	}
	*steps -= len(f.things) / 16 // what it costs to make room in the list
	f.things = slices.Insert(f.things, at, thing{amounts: a, ahead: ahead})
	f.count(at)
	for i := range f.things[:at] {
		f.things[i].rest += a.this
		f.things[i].least = min(f.things[i].least, a.other)
	}
	f.total = f.total.plus(a)
	f.step = divisor(f.step, a.this)
	return true
}

// search raises most to the fullest set with a request in it that is not among
// things yet.
func (f *filling) search(a amounts, ahead int, steps *int) {
	if all := f.total.plus(a); all.within(f.room) {
		f.raise(all.this, min(ahead, f.first()))
		return
	}
	f.goal = a.this
	if f.step > 0 {
		f.goal += (f.room.this - a.this) / f.step * f.step
	}
	if f.goal > f.most && !f.fill(0, a, ahead, steps) && *steps < 0 {
		f.raise(f.room.this, ahead)
	}
}

// first returns the first request ahead.
func (f *filling) first() int {
	first := nobody
	for i := range f.things {
		first = min(first, f.things[i].ahead)
	}
	return first
}

func (f *filling) raise(most int64, first int) {
	if most > f.most {
		f.most = most
		f.rises = append(f.rises, rise{most, first})
	}
}

// fill tries every set of things from i on beside what is taken already. It
// returns true if it found one that cannot be surpassed, and false if it has
// tried all of them or has no steps left.
func (f *filling) fill(i int, taken amounts, first int, steps *int) bool {
	if f.raise(taken.this, first); f.most >= f.goal {
		return true
	}
	n := len(f.things)
	for i < n {
		if *steps--; *steps < 0 {
			return false
		}
		t, left := &f.things[i], amounts{f.room.this - taken.this, f.room.other - taken.other}
		if t.this > left.this { // go on to those that fit
			more, _ := slices.BinarySearchFunc(f.things[i:], left.this, func(t thing, left int64) int { return cmp.Compare(left, t.this) })
			i += more
			continue
		}
		if taken.this+min(t.rest, f.mostOf(i, left)*t.this) <= f.most {
			return false
		}
		if t.other <= left.other && f.fill(i+1, taken.plus(t.amounts), min(first, t.ahead), steps) {
			return true
		}
		for alike := t.amounts; i < n && f.things[i].amounts == alike; {
			i++
		}
	}
	return false
}

// mostOf returns an upper bound on how many of the things from i on fit into left.
func (f *filling) mostOf(i int, left amounts) int64 {
	n := int64(len(f.things) - i)
	if least := f.things[i].least; least > 0 {
		n = min(n, left.other/least)
	}
	if least := f.things[len(f.things)-1].this; least > 0 {
		n = min(n, left.this/least)
	}
	return n
}

// allows reports whether a later request for this amount delays nobody.
func (f *filling) allows(later int64) bool { return f.most < 0 || f.most+later <= f.room.this }

// delayed returns a request ahead that a later request for this amount delays.
func (f *filling) delayed(later int64) int {
	if f.allows(later) {
		return nobody
	}
	for _, r := range f.rises {
		if r.most+later > f.room.this {
			return r.first
		}
	}
	return nobody
}

func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
