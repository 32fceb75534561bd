package park_test

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
)

// A lease that is parked because others wait stands in the queue for its return.
func ExampleNext() {
	s, acts := park.Next(park.State{At: park.Here}, park.Event{What: park.Ordered, Book: lease.Active})
	fmt.Println(s.At, acts)

	s, acts = park.Next(s, park.Event{What: park.Departed, Book: lease.Parked})
	fmt.Println(s.At, acts)
	// Output:
	// leaving [depart]
	// parked [write tell queue]
}
