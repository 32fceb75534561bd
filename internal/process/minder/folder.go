package minder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// Runs is the folder with the files of the runs. Only its owner may use it.
type Runs struct{ folder string }

// Open opens the folder, and makes it if needed. The folder around it must be there.
func Open(folder string) (*Runs, error) {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder of the runs: %w", err)
	}
	var about unix.Stat_t
	switch err := unix.Lstat(folder, &about); {
	case err != nil:
		return nil, fmt.Errorf("look at the folder of the runs %s: %w", folder, err)
	case about.Mode&unix.S_IFMT != unix.S_IFDIR || int(about.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s is not a folder of user %d: remove it", folder, os.Geteuid())
	case about.Mode&0o077 != 0:
		if err := os.Chmod(folder, 0o700); err != nil {
			return nil, fmt.Errorf("close the folder of the runs to others: %w", err)
		}
	}
	return &Runs{folder}, nil
}

// isRun reports whether a text is the name of a run: the numbers of the job, the task and
// the try. It is no regular expression because every command would wait for that to be
// compiled.
func isRun(name string) bool {
	parts := strings.Split(name, ".")
	most := [...]int{19, 10, 10} // digits
	if len(parts) != len(most) {
		return false
	}
	for i, part := range parts {
		if part == "" || len(part) > most[i] || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return true
}

func (r *Runs) path(run string) (string, error) {
	if !isRun(run) {
		return "", fmt.Errorf("%q is not the name of a run: it has the form JOB.TASK.TRY, as in 17.3.1", run)
	}
	return filepath.Join(r.folder, run), nil
}

// List returns the names of the runs that have a file, in no order.
func (r *Runs) List() ([]string, error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if isRun(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Read returns the record of a run, and whether its minder lives. Without a file the
// record is zero. A record that says started and not ended, and whose minder does not
// live, will never say more.
func (r *Runs) Read(run string) (record runs.Record, alive bool, err error) {
	path, err := r.path(run)
	if err != nil {
		return runs.Record{}, false, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return runs.Record{}, false, nil
	case err != nil:
		return runs.Record{}, false, fmt.Errorf("read the record of run %s: %w", run, err)
	}
	defer f.Close()
	for {
		before, err := read(f)
		if err != nil {
			return runs.Record{}, false, fmt.Errorf("read the record of run %s: %w", run, err)
		}
		if alive, err = locked(f); err != nil {
			return runs.Record{}, false, fmt.Errorf("look at the lock of run %s: %w", run, err)
		}
		if record, err = read(f); err != nil {
			return runs.Record{}, false, fmt.Errorf("read the record of run %s: %w", run, err)
		}
		// A minder that began after the lock was looked at may live. Once a record says
		// started, no other minder begins.
		if alive || record.Started.IsZero() || !before.Started.IsZero() {
			return record, alive, nil
		}
	}
}

// Minds reports whether a process minds a run.
func (r *Runs) Minds(id process.ID) bool {
	names, _ := r.List()
	for _, run := range names {
		if record, alive, err := r.Read(run); err == nil && alive && record.Minder() == id {
			return true
		}
	}
	return false
}

// Remove removes the file of a run, if there is one.
func (r *Runs) Remove(run string) error {
	path, err := r.path(run)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of run %s: %w", run, err)
	}
	return nil
}

// The file of a run has a place for each step. Each place holds a line: a checksum, and
// the fields of the Record that the step knows, as JSON. The kernel reserves room for all
// of it when the file is made, so a full disk loses neither the start nor the end; what
// started says may be longer if the names of the logs have letters that JSON escapes.
const (
	begunAt   = 0
	endedAt   = 4 << 10
	startedAt = 8 << 10
	reserved  = 24 << 10

	mostStarted = 128 << 10
)

// read reads all places. It leaves out a line that was not completely written.
func read(f *os.File) (runs.Record, error) {
	var record runs.Record
	for _, place := range []struct{ at, most int64 }{{begunAt, endedAt - begunAt}, {startedAt, mostStarted}, {endedAt, startedAt - endedAt}} {
		text, err := io.ReadAll(io.NewSectionReader(f, place.at, place.most))
		if err != nil {
			return runs.Record{}, err
		}
		line, _, complete := bytes.Cut(text, []byte{'\n'})
		sum, fields, _ := bytes.Cut(line, []byte{' '})
		if !complete || string(sum) != checksum(fields) {
			continue
		}
		if err := json.Unmarshal(fields, &record); err != nil {
			return runs.Record{}, err
		}
	}
	return record, nil
}

func checksum(text []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// note is the file of a run as its minder has it, locked.
type note struct{ file *os.File }

// errTaken means that another minder has this run, or had it.
var errTaken = errors.New("another minder has begun this run")

// take makes or opens the file of a run and locks it. It returns errTaken if the file is
// locked, or if its record says that the command was started or that the run has ended.
func (r *Runs) take(run string) (*note, error) {
	path, err := r.path(run)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the record of run %s: %w", run, err)
	}
	// Locks of this kind belong to the open file, and the daemon can look whether there
	// is one without taking it.
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = errTaken
	}
	var record runs.Record
	if err == nil {
		record, err = read(f)
	}
	if err == nil && (!record.Started.IsZero() || !record.Ended.IsZero()) {
		err = errTaken
	}
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, reserved)
		if errors.Is(err, unix.EOPNOTSUPP) {
			_, err = f.WriteAt(make([]byte, reserved), 0) // the record has no step that counts
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run %s: %w", run, err), f.Close())
	}
	return &note{f}, nil
}

// locked reports whether a minder has locked the file.
func locked(f *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}

// write writes a step. The fields of the record that belong to other steps must be zero.
func (n *note) write(at int64, step runs.Record) error {
	text := bytes.NewBufferString("00000000 ")
	lines := json.NewEncoder(text) // it ends the line
	lines.SetEscapeHTML(false)
	if err := lines.Encode(step); err != nil {
		return err
	}
	fields := bytes.TrimSuffix(text.Bytes()[len("00000000 "):], []byte{'\n'})
	copy(text.Bytes(), checksum(fields))
	if most := map[int64]int{begunAt: endedAt - begunAt, endedAt: startedAt - endedAt, startedAt: mostStarted}[at]; text.Len() > most {
		return errors.New("the record is too long: " + strconv.Itoa(text.Len()) + " bytes")
	}
	_, err := n.file.WriteAt(text.Bytes(), at)
	return err
}

// removed reports whether the file has no name any more.
func (n *note) removed() bool {
	var about unix.Stat_t
	return unix.Fstat(int(n.file.Fd()), &about) == nil && about.Nlink == 0
}

// sync makes durable what was written.
func (n *note) sync() error {
	for {
		if err := unix.Fdatasync(int(n.file.Fd())); err != unix.EINTR {
			return err
		}
	}
}

// syncName makes the name of the file durable. Only the owner of the folder can.
func (n *note) syncName() error {
	folder, err := os.Open(filepath.Dir(n.file.Name()))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
