// Package numbers gives out numbers, each of them once.
//
// The ids that the daemon makes for programs and jobs end with such a number. A file
// remembers them across restarts: before a number is given out, the file says that it
// may have been.
package numbers

import (
	"errors"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// block is how many numbers one write to the disk allows. A daemon that is killed skips
// at most so many.
const block = 16

// Numbers gives out numbers. Several goroutines may use it.
type Numbers struct {
	file *file.State[document]

	mu   sync.Mutex // guards the fields below, and orders the writes
	next int64      // to give out
	end  int64      // the first number that the file does not allow
}

// document is the content of the file.
type document struct {
	Next int64 `json:"next"` // no number from here on was given out
}

// New returns numbers from 1 on that are kept nowhere.
func New() *Numbers {
	n, _ := Open("", time.Time{})
	return n
}

// Open reads the file at path; an empty path means that there is none. If the file is
// damaged, the numbers go on from the time in seconds, which is far above any that was
// given out.
func Open(path string, now time.Time) (*Numbers, *file.Damage) {
	n := &Numbers{file: newFile(path)}
	var why error
	n.next, why = read(n.file)
	n.end = n.next
	if why == nil {
		return n, nil
	}
	n.next = now.Unix()
	n.end = n.next
	return n, n.file.Begin(document{Next: n.next}, why)
}

func newFile(path string) *file.State[document] {
	return file.NewState[document](path, file.StateOptions{
		What: "which numbers are in use", Version: 1,
		Lost: "The numbers of new ids go on from the time in seconds, so that none is used twice.",
	})
}

// read returns the next number that a file allows; 1 if there is no file.
func read(f *file.State[document]) (next int64, err error) {
	next = 1
	err = f.Read(func(d document) error {
		if d.Next < 1 {
			return errors.New("the next number is missing")
		}
		next = d.Next
		return nil
	})
	return next, err
}

// Given notes that a number was given out before. If the file does not say so, it is
// missing or old, and the numbers go on from the time in seconds.
func (n *Numbers) Given(number int64, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number >= n.next {
		n.next = max(number+1, now.Unix())
		n.end = n.next
	}
}

// Above lets the numbers of the file at path go on where those of another file do, if that
// is later. If the other one is damaged, they go on from the time in seconds.
func Above(path, other string, now time.Time) error {
	to := newFile(path)
	next, err := read(to)
	if err != nil {
		return nil // Open lets them go on from the time
	}
	later, err := read(newFile(other))
	if err != nil {
		later = now.Unix()
	}
	if later <= next {
		return nil
	}
	return to.Save(document{Next: later})
}

// Next returns a number that was never returned before, not even by a daemon that was
// killed. It fails if the disk refuses.
func (n *Numbers) Next() (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == n.end {
		if err := n.file.Save(document{Next: n.end + block}); err != nil {
			return 0, journal.Failed("write", "the numbers of new ids", err)
		}
		n.end += block
	}
	given := n.next
	n.next++
	return given, nil
}

// Close notes which number is next, so that the next daemon skips none.
func (n *Numbers) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == n.end {
		return nil
	}
	if err := n.file.Save(document{Next: n.next}); err != nil {
		return err
	}
	n.end = n.next
	return nil
}
