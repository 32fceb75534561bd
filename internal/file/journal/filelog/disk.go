package filelog

// Disk is the directory of a log, and everything that the log needs from an
// operating system. The real one is Dir; disktest has one that can crash.
type Disk interface {
	// Lock locks the directory for this process until unlock, and creates it if
	// needed. It returns a *journal.LockedError if another process has the
	// lock.
	Lock() (unlock func() error, err error)

	// List returns the names of the files, in no order.
	List() ([]string, error)
	ReadFile(name string) ([]byte, error)

	// Create opens an empty file for writing. It empties an existing file.
	Create(name string) (File, error)
	// Open opens an existing file for writing.
	Open(name string) (File, error)
	// Rename replaces whatever has the new name, in one step.
	Rename(from, to string) error
	Remove(name string) error

	// Sync makes the names of the files durable. It does not touch their
	// contents.
	Sync() error

	// Boot returns an id that differs for each boot of the machine, or zero if it is
	// unknown.
	Boot() BootID
}

// File is a file open for writing.
type File interface {
	WriteAt(b []byte, off int64) (int, error)
	// Sync makes durable what was written, and the size if reading needs it.
	Sync() error
	Close() error
}

// BootID names one boot of one machine.
type BootID [16]byte
