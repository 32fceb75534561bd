// Package alarm keeps times at which something is due, the earliest first.
//
// Pure: no clock, no I/O.
package alarm

import "time"

// Alarm is the time at which something is due. It is set while it is in Alarms.
type Alarm[T any] struct {
	At    time.Time
	Of    T
	place int // in the heap, counted from one; zero: not in it
}

// IsSet reports whether the alarm is in Alarms.
func (a *Alarm[T]) IsSet() bool { return a.place > 0 }

// Alarms is a binary heap with the earliest alarm first. Each alarm knows its
// place, so Remove is as quick as Add.
type Alarms[T any] []*Alarm[T]

// Next returns the earliest time; false if there is none.
func (h Alarms[T]) Next() (time.Time, bool) {
	if len(h) == 0 {
		return time.Time{}, false
	}
	return h[0].At, true
}

// Due lists the alarms that are due, in no order.
func (h Alarms[T]) Due(now time.Time) []*Alarm[T] { return h.due(now, 0, nil) }

// due appends the alarms at or below i in the heap that are due. No alarm is
// earlier than the one above it, so due stops at the first that is not due.
func (h Alarms[T]) due(now time.Time, i int, list []*Alarm[T]) []*Alarm[T] {
	if i >= len(h) || now.Before(h[i].At) {
		return list
	}
	list = append(list, h[i])
	list = h.due(now, 2*i+1, list)
	return h.due(now, 2*i+2, list)
}

// Add adds an alarm that is not set.
func (h *Alarms[T]) Add(a *Alarm[T]) {
	*h = append(*h, a)
	h.up(len(*h) - 1)
}

// Remove removes an alarm, if it is set.
func (h *Alarms[T]) Remove(a *Alarm[T]) {
	if a.place == 0 {
		return
	}
	i, last := a.place-1, len(*h)-1
	(*h)[i] = (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.place = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

// Move sets an alarm to another time.
func (h *Alarms[T]) Move(a *Alarm[T], at time.Time) {
	a.At = at
	i := a.place - 1
	h.down(i)
	h.up(i)
}

// Ordered reports whether every alarm is where it should be.
func (h Alarms[T]) Ordered() bool {
	for i, a := range h {
		if a.place != i+1 || i > 0 && a.At.Before(h[(i-1)/2].At) {
			return false
		}
	}
	return true
}

func (h Alarms[T]) up(i int) {
	a := h[i]
	for i > 0 && a.At.Before(h[(i-1)/2].At) {
		h.put(i, h[(i-1)/2])
		i = (i - 1) / 2
	}
	h.put(i, a)
}

func (h Alarms[T]) down(i int) {
	a := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].At.Before(h[child].At) {
			child++
		}
		if !h[child].At.Before(a.At) {
			break
		}
		h.put(i, h[child])
		i = child
	}
	h.put(i, a)
}

func (h Alarms[T]) put(i int, a *Alarm[T]) {
	h[i] = a
	a.place = i + 1
}
