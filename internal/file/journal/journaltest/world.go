// Package journaltest is the suite that every journal passes.
//
// It drives a journal through scripted and random histories, stops the world at
// every single operation on the disk, and checks what comes back.
package journaltest

import "github.com/berth-gpu/berth/internal/file/journal"

// World is a journal on a disk that can fail and crash.
type World interface {
	// Open opens the journal. It is small enough in its segments and steps for
	// short histories to reach all its code.
	Open(replay func(journal.Entry) error) (journal.Journal, journal.Recovery, error)

	// Kill ends the process that has the journal open: what it has written
	// stays.
	Kill()
	// PowerCut ends the machine: chance(n) picks from 0 to n-1 what happens to
	// each write that was not synced. 0 means that it is lost and 1 that it is
	// kept, more means that it is torn.
	PowerCut(chance func(n int) int)

	// Ops counts operations on the disk.
	Ops() int
	// CrashAt stops everything at an operation; of a write, partial bytes get
	// done. Kill or PowerCut comes next.
	CrashAt(op, partial int)
	// FailAt lets an operation fail, and those after it too if stay.
	FailAt(op int, fault Fault)
	// Fill leaves no room beyond what the files have.
	Fill()
	// Mend takes back FailAt and Fill.
	Mend()

	// Bytes is the size of all files, and Flip changes one byte of them, while
	// the journal is closed or dead.
	Bytes() int
	Flip(i int, mask byte)
}

// Fault is an operation that fails.
type Fault struct {
	Err     error
	Partial int  // bytes of a write that get done
	Revert  bool // after a failed sync, what was written is not even seen any more
	Stay    bool // what comes after it fails too, until Mend
}
