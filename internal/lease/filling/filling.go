// Package filling finds how full a room can get with things of two sizes in it,
// such as the memory and the slots of a device.
//
// Pure: no clock, no I/O.
package filling

import (
	"cmp"
	"math"
	"slices"
)

// Filling finds how full a device can get in one respect, memory or slots, while
// it is within its room in both, with one of the requests ahead on it.
type Filling struct {
	room   Amounts
	things []thing // what may be on the device: the largest first, of equal ones the one with less of the other
	total  Amounts // of things
	step   int64   // the greatest common divisor of things: sums grow in this step
	most   int64   // how full the device can get with a request ahead on it; negative: there is none
	rises  []rise  // how most grew
	goal   int64   // of the search at hand: a sum cannot be larger
}

// Amounts are an amount in the respect that counts, and in the other one.
type Amounts struct{ This, Other int64 }

func (a Amounts) plus(b Amounts) Amounts { return Amounts{a.This + b.This, a.Other + b.Other} }

func (a Amounts) within(room Amounts) bool { return a.This <= room.This && a.Other <= room.Other }

// thing is a holding or a request ahead.
type thing struct {
	Amounts
	ahead int   // the index of the request; Nobody for a holding
	rest  int64 // the sum of this from here to the end
	least int64 // the least of other from here to the end
}

// rise is a set of things that fills the device up to most.
type rise struct {
	most  int64
	first int // the first request ahead in the set
}

// Nobody is the index of no request.
const Nobody = math.MaxInt

// Begin begins with an empty room.
func (f *Filling) Begin(room Amounts) {
	*f = Filling{room: room, things: f.things[:0], rises: f.rises[:0], most: -1}
}

// Put puts a holding into the room. Sort follows the last one.
func (f *Filling) Put(a Amounts) { f.things = append(f.things, thing{Amounts: a, ahead: Nobody}) }

// Sort makes things ready for Add: it sorts them and leaves out those that never
// matter.
func (f *Filling) Sort() {
	slices.SortFunc(f.things, func(a, b thing) int { return compareAmounts(a.Amounts, b.Amounts) })
	kept, alike := f.things[:0], 0
	for _, t := range f.things {
		if len(kept) == 0 || kept[len(kept)-1].Amounts != t.Amounts {
			alike = 0
		}
		if alike++; alike <= f.fitting(t.Amounts) {
			kept = append(kept, t)
			f.total = f.total.plus(t.Amounts)
			f.step = divisor(f.step, t.This)
		}
	}
	f.things = kept
	for i := len(kept) - 1; i >= 0; i-- {
		f.count(i)
	}
}

func compareAmounts(a, b Amounts) int {
	return cmp.Or(cmp.Compare(b.This, a.This), cmp.Compare(a.Other, b.Other))
}

// count computes the sums of the thing at i from those of the next one.
func (f *Filling) count(i int) {
	t := &f.things[i]
	t.rest, t.least = t.This, t.Other
	if i+1 < len(f.things) {
		t.rest += f.things[i+1].rest
		t.least = min(t.least, f.things[i+1].least)
	}
}

// fitting returns how many things with these Amounts fit on the empty device.
// What takes nothing never matters.
func (f *Filling) fitting(a Amounts) int {
	n := int64(0)
	switch {
	case !a.within(f.room):
	case a.This > 0 && a.Other > 0:
		n = min(f.room.This/a.This, f.room.Other/a.Other)
	case a.This > 0:
		n = f.room.This / a.This
	case a.Other > 0:
		n = f.room.Other / a.Other
	}
	return int(n)
}

// Add adds a request ahead, and raises most if the device can get fuller with it.
// It reports false if the request never matters, nor will another one like it.
func (f *Filling) Add(a Amounts, ahead int, steps *int) bool {
	if !a.within(f.room) {
		return false
	}
	at, _ := slices.BinarySearchFunc(f.things, a, func(t thing, a Amounts) int { return compareAmounts(t.Amounts, a) })
	alike := 0
	for fits := f.fitting(a); alike < fits && at+alike < len(f.things) && f.things[at+alike].Amounts == a; {
		alike++
	}
	enough := alike == f.fitting(a)
	if enough && alike > 0 && f.things[at].ahead != Nobody {
		return false // a set with this request is as full with one like it
	}
	if f.most < f.room.This {
		f.search(a, ahead, steps)
	}
	if enough {
		if alike > 0 {
			f.things[at].ahead = ahead
		}
		return true
	}
	*steps -= len(f.things) / 16 // what it costs to make room in the list
	f.things = slices.Insert(f.things, at, thing{Amounts: a, ahead: ahead})
	f.count(at)
	for i := range f.things[:at] {
		f.things[i].rest += a.This
		f.things[i].least = min(f.things[i].least, a.Other)
	}
	f.total = f.total.plus(a)
	f.step = divisor(f.step, a.This)
	return true
}

// search raises most to the fullest set with a request in it that is not among
// things yet.
func (f *Filling) search(a Amounts, ahead int, steps *int) {
	if all := f.total.plus(a); all.within(f.room) {
		f.raise(all.This, min(ahead, f.first()))
		return
	}
	f.goal = a.This
	if f.step > 0 {
		f.goal += (f.room.This - a.This) / f.step * f.step
	}
	if f.goal > f.most && !f.fill(0, a, ahead, steps) && *steps < 0 {
		f.raise(f.room.This, ahead)
	}
}

// first returns the first request ahead.
func (f *Filling) first() int {
	first := Nobody
	for i := range f.things {
		first = min(first, f.things[i].ahead)
	}
	return first
}

func (f *Filling) raise(most int64, first int) {
	if most > f.most {
		f.most = most
		f.rises = append(f.rises, rise{most, first})
	}
}

// fill tries every set of things from i on beside what is taken already. It
// returns true if it found one that cannot be surpassed, and false if it has
// tried all of them or has no steps left.
func (f *Filling) fill(i int, taken Amounts, first int, steps *int) bool {
	if f.raise(taken.This, first); f.most >= f.goal {
		return true
	}
	n := len(f.things)
	for i < n {
		if *steps--; *steps < 0 {
			return false
		}
		t, left := &f.things[i], Amounts{f.room.This - taken.This, f.room.Other - taken.Other}
		if t.This > left.This { // go on to those that fit
			more, _ := slices.BinarySearchFunc(f.things[i:], left.This, func(t thing, left int64) int { return cmp.Compare(left, t.This) })
			i += more
			continue
		}
		if taken.This+min(t.rest, f.mostOf(i, left)*t.This) <= f.most {
			return false
		}
		if t.Other <= left.Other && f.fill(i+1, taken.plus(t.Amounts), min(first, t.ahead), steps) {
			return true
		}
		for alike := t.Amounts; i < n && f.things[i].Amounts == alike; {
			i++
		}
	}
	return false
}

// mostOf returns how many of the things from i on fit into what is left, or a
// larger number.
func (f *Filling) mostOf(i int, left Amounts) int64 {
	n := int64(len(f.things) - i)
	if least := f.things[i].least; least > 0 {
		n = min(n, left.Other/least)
	}
	if least := f.things[len(f.things)-1].This; least > 0 {
		n = min(n, left.This/least)
	}
	return n
}

// Allows reports whether a later request for this amount delays nobody.
func (f *Filling) Allows(later int64) bool { return f.most < 0 || f.most+later <= f.room.This }

// Delayed returns a request ahead that a later request for this amount delays.
func (f *Filling) Delayed(later int64) int {
	if f.Allows(later) {
		return Nobody
	}
	for _, r := range f.rises {
		if r.most+later > f.room.This {
			return r.first
		}
	}
	return Nobody
}

func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
