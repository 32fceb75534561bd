package filelog

// Disk is the directory a log lives in, and everything the log asks of an
// operating system. The real one is Dir; disktest has one that can crash.
type Disk interface {
	// Lock takes the directory, which is made if it is not there, for this
	// process until unlock. It is a *journal.LockedError if another has it.
	Lock() (unlock func() error, err error)

	// List returns the names of the files, in no order.
	List() ([]string, error)
	ReadFile(name string) ([]byte, error)

	// Create opens an empty file for writing, and empties it if it is there.
	Create(name string) (File, error)
	// Open opens a file that is there for writing.
	Open(name string) (File, error)
	// Rename replaces whatever has the new name, in one step.
	Rename(from, to string) error
	Remove(name string) error

	// Sync makes durable which names there are. It does not touch the
	// contents of the files.
	Sync() error

	// Boot tells one boot of the machine from another. Zero: not known.
	Boot() BootID
}

// File is a file open for writing.
type File interface {
	WriteAt(b []byte, off int64) (int, error)
	// Sync makes durable what was written, and the size if that is needed to
	// read it.
	Sync() error
	Close() error
}

// BootID names one boot of one machine.
type BootID [16]byte
