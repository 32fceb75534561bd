// Package disktest is a disk in memory that can crash: data that was not synced
// is lost, kept or torn, as chance or a script decides.
//
// It can also fill up, and fail at any chosen operation.
package disktest

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/berth-gpu/berth/internal/file"
)

// ErrDown is the error of every operation after a crash.
var ErrDown = errors.New("the machine is down")

// Disk is one directory. Use New to make one.
type Disk struct {
	mu     sync.Mutex
	names  map[string]*inode // as a process sees them
	stable map[string]*inode // as they are after a power loss
	moves  []move            // changes of names since the last Sync
	locked bool
	boot   byte
	life   int // grows with every crash; files opened before a crash are dead

	ops    int
	faults map[int]Fault
	limit  int64 // bytes; negative means none
}

// move is one change of names: set gets a file, and del loses it.
type move struct {
	set, del string
	file     *inode
}

// inode is a file without its name.
type inode struct {
	live    []byte // as a process sees it
	stable  []byte // as it is after a power loss
	pending []write
}

type write struct {
	off  int64
	data []byte
}

// New returns an empty disk without limit.
func New() *Disk {
	return &Disk{names: map[string]*inode{}, stable: map[string]*inode{}, faults: map[int]Fault{}, limit: -1, boot: 1}
}

var _ file.Folder = (*Disk)(nil)

// Lock implements file.Folder.
func (d *Disk) Lock() (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked {
		return nil, &file.LockedError{Dir: "disktest", PID: 1}
	}
	d.locked = true
	return lock{d, d.life}, nil
}

// lock is the lock of a process.
type lock struct {
	disk *Disk
	life int
}

// Close releases the lock, unless the process that had it has crashed.
func (l lock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.life == l.disk.life {
		l.disk.locked = false
	}
	return nil
}

// Boot implements file.Folder.
func (d *Disk) Boot() file.BootID { return file.BootID{0: d.boot} }

// List implements file.Folder.
func (d *Disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

// ReadFile implements file.Folder.
func (d *Disk) ReadFile(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(f.live), nil
}

// WriteFile puts a file on the disk, durably, without counting as an operation.
func (d *Disk) WriteFile(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &inode{live: slices.Clone(data), stable: slices.Clone(data)}
	d.names[name], d.stable[name] = f, f
}

// Create implements file.Folder.
func (d *Disk) Create(name string) (file.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fault, failed := d.step(); failed {
		return nil, fault.Err
	}
	f := &inode{}
	d.names[name] = f
	d.moves = append(d.moves, move{set: name, file: f})
	return &handle{disk: d, name: name, file: f, life: d.life}, nil
}

// Open implements file.Folder.
func (d *Disk) Open(name string) (file.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fault, failed := d.step(); failed {
		return nil, fault.Err
	}
	f, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &handle{disk: d, name: name, file: f, life: d.life}, nil
}

// Rename implements file.Folder.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fault, failed := d.step(); failed {
		return fault.Err
	}
	f, ok := d.names[from]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(d.names, from)
	d.names[to] = f
	d.moves = append(d.moves, move{set: to, del: from, file: f})
	return nil
}

// Remove implements file.Folder.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fault, failed := d.step(); failed {
		return fault.Err
	}
	if _, ok := d.names[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(d.names, name)
	d.moves = append(d.moves, move{del: name})
	return nil
}

// Sync implements file.Folder.
func (d *Disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fault, failed := d.step(); failed {
		return fault.Err
	}
	d.stable = maps.Clone(d.names)
	d.moves = nil
	return nil
}

type handle struct {
	disk *Disk
	name string
	file *inode
	life int
}

// WriteAt implements file.File. A write that fails has written a part.
func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.life != d.life {
		return 0, ErrDown
	}
	fault, failed := d.step()
	if failed {
		b = b[:min(len(b), fault.Partial)]
	}
	if room := d.room(h.file, off); int64(len(b)) > room {
		b, fault, failed = b[:room], Fault{Err: syscall.ENOSPC}, true
	}
	if len(b) > 0 {
		h.file.live = put(h.file.live, off, b)
		h.file.pending = append(h.file.pending, write{off, slices.Clone(b)})
	}
	if failed {
		return len(b), fault.Err
	}
	return len(b), nil
}

// Sync implements file.File. After a failed Sync, pending data reaches the disk only
// if it is written again, because the cache counts it as clean.
func (h *handle) Sync() error {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.life != d.life {
		return ErrDown
	}
	fault, failed := d.step()
	if failed && errors.Is(fault.Err, ErrDown) {
		return fault.Err
	}
	if failed {
		h.file.stable = lose(h.file.stable, h.file.pending, fault.Keep)
		h.file.pending = nil
		if fault.Revert {
			h.file.live = slices.Clone(h.file.stable)
		}
		return fault.Err
	}
	h.file.stable = slices.Clone(h.file.live)
	h.file.pending = nil
	return nil
}

// Size implements file.File.
func (h *handle) Size() (int64, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.disk.names[h.name] != h.file {
		return 0, file.ErrMoved
	}
	return int64(len(h.file.live)), nil
}

// Close implements file.File.
func (h *handle) Close() error { return nil }

func put(b []byte, off int64, data []byte) []byte {
	if end := int(off) + len(data); end > len(b) {
		b = append(b, make([]byte, end-len(b))...)
	}
	copy(b[off:], data)
	return b
}
