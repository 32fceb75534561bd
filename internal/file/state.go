package file

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/when/later"
)

// StateOptions describe a state file.
type StateOptions struct {
	// What says what is in the file, for errors: "write which devices are drained".
	What string
	// Lost names the consequences of damage, in sentences for people.
	Lost string
	// Version is the version of the format, the member "version" of the file. The same
	// version may get a new member if a reader that does not know it still understands
	// the rest. 0 means that the file has no version.
	Version int
	// Bare means that earlier versions of berth wrote no version.
	Bare bool
	// Strict refuses members that T does not have: a restriction that this berth does
	// not know must not be dropped.
	Strict bool
	// OfBoot means that the value says nothing after a reboot, and is saved unsynced: an
	// empty file from before the boot is what a power loss leaves, and no damage.
	OfBoot bool
}

// State is a state file with a value of type T, as JSON, or as the text that T makes of
// itself if it implements encoding.TextMarshaler and its pointer
// encoding.TextUnmarshaler.
//
// The file is replaced as a whole, has a checksum and at most 64 MiB. A damaged file is
// kept under another name and reported. A State with an empty path has no file: it reads
// nothing, and saves nothing.
type State[T any] struct {
	path    string
	folder  Folder // of path
	options StateOptions
	writing sync.Mutex    // held while the file is written
	stays   atomic.Bool   // the file is damaged and could not be set aside: it must not be replaced
	unread  atomic.Bool   // the file was not read, and nothing is known to be wrong with it: likewise
	size    atomic.Int64  // of the last text
	wake    chan struct{} // has room for one; signals that due has changed

	mu  sync.Mutex // guards due
	due time.Time  // when the next write is due; zero if nothing has changed
}

// NewState returns the state file at path.
func NewState[T any](path string, o StateOptions) *State[T] {
	return &State[T]{path: path, folder: folderOf(path), options: o, wake: make(chan struct{}, 1)}
}

// Read reads the file and passes its value to take. It returns an error that says what is
// wrong if the file is damaged or take refuses the value. If there is no file, Read
// returns nil and does not call take.
func (s *State[T]) Read(take func(T) error) error {
	if s.path == "" {
		return nil
	}
	found, err := read(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(found) == 0 && s.options.OfBoot && beforeBoot(s.path) {
		return nil
	}
	text, err := Unseal(s.path, found)
	if err != nil {
		return err
	}
	v, err := s.decode(text)
	if err != nil {
		return err
	}
	return take(v)
}

// beforeBoot reports whether a file was written before the machine started.
func beforeBoot(path string) bool {
	var now unix.Sysinfo_t
	written, err := os.Stat(path)
	return err == nil && unix.Sysinfo(&now) == nil && written.ModTime().Before(time.Now().Add(-time.Duration(now.Uptime)*time.Second))
}

// Load does what Read does, and sets a damaged file aside. It returns nil if all is well.
func (s *State[T]) Load(take func(T) error) *Damage {
	if err := s.Read(take); err != nil {
		return s.setAside(nil, err)
	}
	return nil
}

// Begin sets a damaged file aside and writes v instead: whenever the daemon is killed,
// the next one finds the damaged file or v.
func (s *State[T]) Begin(v T, why error) *Damage {
	text, err := s.encode(v)
	return s.setAside(text, errors.Join(why, err))
}

func (s *State[T]) setAside(instead []byte, why error) *Damage {
	d := &Damage{Path: s.path, Lost: s.options.Lost, Err: why, Unread: Unread(why)}
	if !d.Unread {
		d = SetAside(s.path, s.options.Lost, instead, why)
	}
	s.stays.Store(d.Aside == "" && !d.Unread)
	s.unread.Store(d.Unread)
	return d
}

// Save replaces the file and waits for the disk. An error of the disk passes. One goroutine at a time may call Save
// and SaveUnsynced, or the order of the writes is unknown.
func (s *State[T]) Save(v T) error { return s.save(v, true) }

// SaveUnsynced replaces the file and does not wait for the disk. It is for values that
// are not worth the wait: after a power loss the file may be empty.
func (s *State[T]) SaveUnsynced(v T) error { return s.save(v, false) }

func (s *State[T]) save(v T, durable bool) error {
	if s.path == "" {
		return nil
	}
	text, err := s.encode(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", s.options.What, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.unread.Load() {
		return later.Because(fmt.Errorf("write %s: what is in %s could not be read", s.options.What, s.path), 0)
	}
	if s.stays.Load() {
		if err := os.Rename(s.path, AsideName(s.path, time.Now())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write %s: the damaged file cannot be set aside: %w", s.options.What, err)
		}
		s.stays.Store(false)
	}
	if err := Put(s.folder, filepath.Base(s.path), suffix, Seal(s.path, text), durable); err != nil {
		return later.Because(fmt.Errorf("write %s: %w", s.options.What, err), 0)
	}
	s.size.Store(int64(len(text)))
	return nil
}

func (s *State[T]) encode(v T) ([]byte, error) {
	var text []byte
	var err error
	if m, is := any(v).(encoding.TextMarshaler); is {
		text, err = m.MarshalText()
	} else if text, err = json.Marshal(v); err == nil && s.options.Version != 0 {
		text = withVersion(text, s.options.Version)
	}
	if err == nil && len(text) > largest {
		err = fmt.Errorf("it would have %d MiB, and %d are the most", len(text)>>20, largest>>20)
	}
	return text, err
}

// withVersion returns a JSON object with its version as the first member.
func withVersion(object []byte, version int) []byte {
	text := fmt.Appendf(nil, `{"version":%d`, version)
	if len(object) > len("{}") {
		text = append(text, ',')
	}
	return append(text, object[1:]...)
}

// decode reads a text. It keeps numbers in values without a type as they were written.
func (s *State[T]) decode(text []byte) (v T, err error) {
	if u, is := any(&v).(encoding.TextUnmarshaler); is {
		return v, u.UnmarshalText(text)
	}
	if known := s.options.Version; known != 0 {
		var is struct {
			Version int `json:"version"`
		}
		if err := json.Unmarshal(text, &is); err != nil {
			return v, err
		}
		if is.Version != known && !(s.options.Bare && is.Version == 0) {
			return v, VersionError(is.Version, known)
		}
	}
	from := json.NewDecoder(bytes.NewReader(text))
	from.UseNumber()
	if s.options.Strict {
		from.DisallowUnknownFields()
	}
	if err := from.Decode(&v); err != nil {
		return v, err
	}
	if _, err := from.Token(); err != io.EOF {
		return v, errors.New("there is text after the object")
	}
	return v, nil
}

// VersionError reports a file with a version that this berth does not know.
func VersionError(found, known int) error {
	return fmt.Errorf("it has version %d, and this berth knows version %d", found, known)
}

// The pace of Run.
const (
	retry     = 10 * time.Second // after a failed write
	writeRate = 256 << 10        // most bytes to write in a second, on average
)

// Change makes Run write the file within this time, or a little later if the file is
// large.
func (s *State[T]) Change(within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := time.Now().Add(within)
	if !s.due.IsZero() && !due.Before(s.due) {
		return // a write is due anyway
	}
	s.due = due
	select {
	case s.wake <- struct{}{}:
	default: // Run is about to look anyway
	}
}

// Run calls save when a Change is due, until ctx ends, and then once more if something
// has changed since. If save fails, Run calls complain once, which may be nil, and tries
// again until it succeeds. It returns the error of the last call.
func (s *State[T]) Run(ctx context.Context, save func() error, complain func(error)) error {
	if s.path == "" {
		<-ctx.Done()
		return nil
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rest time.Time // no write before this time
	for failed := false; ; {
		select {
		case <-ctx.Done():
			if s.changed(true).IsZero() {
				return nil
			}
			return save()
		case <-s.wake:
		case <-timer.C:
		}
		due := s.changed(false)
		if due.IsZero() {
			continue
		}
		if wait := max(time.Until(due), time.Until(rest)); wait > 0 {
			timer.Reset(wait)
			continue
		}
		s.changed(true)
		err := save()
		if err != nil && !failed && complain != nil {
			complain(fmt.Errorf("cannot %w; berth tries again every 10 s", err))
		}
		rest = time.Now().Add(time.Duration(s.size.Load()) * time.Second / writeRate)
		if failed = err != nil; failed {
			rest = time.Now().Add(retry)
			s.Change(retry)
		}
	}
}

// changed returns when the next write is due; zero if nothing has changed. If written is
// true, what changes from now on needs another write.
func (s *State[T]) changed(written bool) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.due
	if written {
		s.due = time.Time{}
	}
	return due
}
