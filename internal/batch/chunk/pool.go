package chunk

import (
	"math"
	"slices"
)

// Pool holds waiting items, so that the heaviest can go first: a long record
// that comes last keeps every other worker waiting. Items whose weights differ
// by less than a few percent count as equal and keep their order: that is as
// good for the makespan, and neighbours stay together. Items without weight are
// all equal, so a pool of them is a queue. The zero value is empty.
type Pool[T any] struct {
	keys   []int // keys of the classes that are not empty, in order
	class  map[int]*line[T]
	count  int
	weight float64
	taken  int // items that the last Take removed
}

const (
	classes  = 16    // classes in a doubling of weight: 4.4 % each
	heaviest = 1e200 // so that sums stay finite
)

func keyOf(weight float64) int {
	if weight == 0 {
		return math.MinInt
	}
	return int(math.Floor(classes * math.Log2(weight)))
}

// Len returns the number of waiting items.
func (p *Pool[T]) Len() int { return p.count }

// Weight returns the sum of the weights of the waiting items.
func (p *Pool[T]) Weight() float64 { return p.weight }

// Put adds an item behind its equals. An invalid weight (NaN, or below zero)
// counts as none.
func (p *Pool[T]) Put(item T, weight float64) {
	if !(weight > 0) {
		weight = 0
	}
	weight = min(weight, heaviest)
	key := keyOf(weight)
	l := p.class[key]
	if l == nil {
		if p.class == nil {
			p.class = map[int]*line[T]{}
		}
		l = &line[T]{}
		p.class[key] = l
		at, _ := slices.BinarySearch(p.keys, key)
		p.keys = slices.Insert(p.keys, at, key)
	}
	l.push(weighted[T]{item, weight})
	p.count++
	p.weight += weight
}

// Take removes items, the heaviest or the lightest first, as long as there is room for
// one more.
func (p *Pool[T]) Take(lightest bool, room func(count int, item T, weight float64) bool) (items []T, weight float64) {
	items = make([]T, 0, min(p.taken, p.count)) // the next batch is about as large as the last one
	defer func() { p.taken = len(items) }()
	for len(p.keys) > 0 {
		at := len(p.keys) - 1
		if lightest {
			at = 0
		}
		key := p.keys[at]
		l := p.class[key]
		next := l.first()
		if !room(len(items)+1, next.item, weight+next.weight) {
			break
		}
		l.pop()
		items = append(items, next.item)
		weight += next.weight
		p.count--
		p.weight -= next.weight
		if l.len() == 0 {
			delete(p.class, key)
			p.keys = slices.Delete(p.keys, at, at+1)
		}
	}
	if p.count == 0 {
		p.weight = 0 // drops the rounding errors
	}
	return items, weight
}

type weighted[T any] struct {
	item   T
	weight float64
}

// line is a queue that gives its memory back as it is used up.
type line[T any] struct {
	items []weighted[T]
	head  int
}

func (l *line[T]) len() int              { return len(l.items) - l.head }
func (l *line[T]) first() weighted[T]    { return l.items[l.head] }
func (l *line[T]) push(item weighted[T]) { l.items = append(l.items, item) }

func (l *line[T]) pop() {
	l.items[l.head] = weighted[T]{} // releases the item
	l.head++
	if l.head > len(l.items)/2 {
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
}
