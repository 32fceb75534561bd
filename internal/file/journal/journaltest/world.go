// Package journaltest is the suite that every journal passes.
//
// It drives a journal through scripted and random histories, stops the world at
// every single operation on the disk, and checks what comes back.
package journaltest

import "github.com/berth-gpu/berth/internal/file/journal"

// World is a journal on a disk that can fail and crash.
type World interface {
	// Open opens the journal, with segments and steps so small that short histories reach
	// all its code.
	Open(replay func(journal.Entry) error) (journal.Journal, journal.Recovery, error)

	// Kill ends the process that has the journal open. Its writes stay.
	Kill()
	// PowerCut stops the machine. chance(n) picks from 0 to n-1 what happens to each
	// write that was not synced: 0 loses it, 1 keeps it, and more tears it.
	PowerCut(chance func(n int) int)

	// Ops counts operations on the disk.
	Ops() int
	// CrashAt stops everything at an operation. If that is a write, it writes partial
	// bytes first. Kill or PowerCut must follow.
	CrashAt(op, partial int)
	// FailAt makes an operation fail, and the later ones too if fault.Stay is set.
	FailAt(op int, fault Fault)
	// Fill leaves no room except in the present files.
	Fill()
	// Mend takes back FailAt and Fill.
	Mend()

	// Bytes returns the size of all files, and Flip changes one byte of them, while the
	// journal is closed or dead.
	Bytes() int
	Flip(i int, mask byte)
}

// Fault is an operation that fails.
type Fault struct {
	Err     error
	Partial int  // bytes of a write that succeed
	Revert  bool // after a failed sync, reads do not return what was written
	Stay    bool // later operations fail too, until Mend
}
