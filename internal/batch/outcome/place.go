package outcome

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Place is where a run puts its outcomes: the output and the folder beside it,
// locked for this process.
type Place struct {
	output  string
	dir     string
	shape   Shape
	replace bool
	mode    fs.FileMode // of an output that is replaced, or the usual one
	journal *journal
	fresh   bool    // there is nothing here that is worth keeping
	begun   *header // of the run to go on with; nil: there is none
}

// Names in the folder.
const (
	journalName = "journal"
	logName     = "outcomes"
	orderedName = "ordered"
	spoolName   = "input"
)

// Dir is the folder that belongs to an output.
func Dir(output string) string { return behindLinks(output) + ".berth" }

// behindLinks is the file that a symbolic link leads to: that one is written,
// and not the link replaced.
func behindLinks(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// Claim takes an output for this process. An output that exists is ErrExists
// unless force is set, or unless an unfinished run is to replace it. With force
// an unfinished run is forgotten.
func Claim(output string, shape Shape, force bool) (*Place, error) {
	shape, err := shape.settled(output)
	if err != nil {
		return nil, err
	}
	output = behindLinks(output)
	p := &Place{output: output, dir: Dir(output), shape: shape, replace: force, mode: 0o666}
	exists, err := p.outputExists()
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(p.dir)
	if unclaimed := errors.Is(err, fs.ErrNotExist); unclaimed && exists && !force {
		return nil, p.existsError()
	}
	if err := p.makeDir(); err != nil {
		return nil, err
	}
	if err := p.lock(); err != nil {
		return nil, err
	}
	if err := p.find(exists); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// makeDir makes the folder, and none above it: those would be a mistyped name.
func (p *Place) makeDir() error {
	if err := os.Mkdir(p.dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func (p *Place) existsError() error {
	return fmt.Errorf("%w: %s is there, and no unfinished run belongs to it", ErrExists, p.output)
}

func (p *Place) appearedError() error {
	return fmt.Errorf("%w: %s came into being since the run was begun: move it away and run the same command again (--force would forget what is done)", ErrAppeared, p.output)
}

func (p *Place) outputExists() (bool, error) {
	stat, err := os.Stat(p.output)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("output: %w", err)
	}
	if !stat.Mode().IsRegular() {
		return false, fmt.Errorf("output %s is not a file: name one, because a run is resumed from what it has written", p.output)
	}
	p.mode = stat.Mode().Perm()
	return true, nil
}

// lock opens the journal for this process alone. The lock goes with the
// process, however it ends.
func (p *Place) lock() error {
	path := filepath.Join(p.dir, journalName)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, p.mode|0o600)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		if err := flock(f); err != nil {
			return errors.Join(fmt.Errorf("%w: %s is locked (%w)", ErrBusy, path, err), f.Close())
		}
		// Another run may have finished, and removed the file, between the
		// opening and the locking.
		mine, err := f.Stat()
		named, err2 := os.Stat(path)
		if err == nil && err2 == nil && os.SameFile(mine, named) {
			p.journal = &journal{file: f}
			return nil
		}
		_ = f.Close()
		if err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
			return fmt.Errorf("output: %w", err2)
		}
		if err := p.makeDir(); err != nil {
			return err
		}
	}
}

// flock locks a file, or fails after a moment: a runner that was killed while
// it started a worker leaves a process behind that holds the lock until it has
// noticed.
func flock(f *os.File) error {
	const moment, look = 500 * time.Millisecond, 10 * time.Millisecond
	for waited := time.Duration(0); ; waited += look {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || waited >= moment {
			return err
		}
		time.Sleep(look)
	}
}

// find looks for a run to go on with.
func (p *Place) find(exists bool) error {
	if p.replace {
		return p.wipe()
	}
	_, err := p.journal.replay(func(e entry) error {
		p.begun = e.Header
		return errStop
	})
	switch {
	case err != nil:
		return fmt.Errorf("output: read %s: %w", p.journal.file.Name(), err)
	case p.begun == nil && exists:
		return p.existsError()
	case p.begun == nil:
		if err := p.kept(); err != nil {
			return err
		}
		return p.wipe()
	case p.begun.Version != journalVersion:
		return fmt.Errorf("%w: %s was written by another version of berth (format %d, this one has %d): go on with that one",
			ErrChanged, p.dir, p.begun.Version, journalVersion)
	}
	return nil
}

// kept refuses to wipe what a run has kept of a stream and not begun to work
// on: it cannot be read again.
func (p *Place) kept() error {
	for _, name := range []string{spoolName, spoolName + ".part"} {
		path := filepath.Join(p.dir, name)
		if stat, err := os.Stat(path); err == nil && stat.Size() > 0 {
			return fmt.Errorf("%w: it was stopped while it kept its standard input; what it had of that, %d bytes, is in %s: move the file away if you need it", ErrGone, stat.Size(), path)
		}
	}
	return nil
}

// wipe forgets the run that was here.
func (p *Place) wipe() error {
	if err := p.journal.cut(0); err != nil {
		return err
	}
	for _, name := range []string{logName, orderedName, spoolName, spoolName + ".part"} {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("output: %w", err)
		}
	}
	p.fresh = true
	return nil
}

// Resuming reports whether there is a run to go on with.
func (p *Place) Resuming() bool { return p.begun != nil }

// Spool keeps a stream, so that the run can be resumed, and returns the file
// that holds it. A run that is resumed has kept it already, and reads nothing.
// When ctx ends, the file holds what came until then, if anything did, and the
// stream may still be read from once.
func (p *Place) Spool(ctx context.Context, r io.Reader) (string, error) {
	path := filepath.Join(p.dir, spoolName)
	if p.Resuming() {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: it was begun without keeping its standard input", ErrGone)
		}
		return path, nil
	}
	f, err := p.create(path + ".part")
	if err != nil {
		return "", err
	}
	defer f.Close()
	p.fresh = false // what is read from here on is nowhere else
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, r)
		copied <- err
	}()
	select {
	case <-ctx.Done(): // the stream may say nothing for a long time: its reader stays behind
		return p.halfKept(f), ctx.Err()
	case err := <-copied:
		if err != nil {
			return "", writeError("keep the input in", f.Name(), err)
		}
	}
	if err := f.Sync(); err != nil {
		return "", writeError("sync", f.Name(), err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return "", fmt.Errorf("output: %w", err)
	}
	return path, nil
}

// halfKept is the file with the beginning of a stream; empty: there was none.
func (p *Place) halfKept(f *os.File) string {
	if stat, err := f.Stat(); err == nil && stat.Size() == 0 {
		_ = os.Remove(f.Name())
		p.fresh = true
		return ""
	}
	return f.Name()
}

// Begin goes on with the run that is there, if same agrees that it has this
// input, or begins a new one.
func (p *Place) Begin(input json.RawMessage, same func(before json.RawMessage) error) (*Log, error) {
	if p.begun == nil {
		return p.beginNew(input)
	}
	if d := p.shape.difference(p.begun.Shape); d != "" {
		return nil, fmt.Errorf("%w: %s: go on with the same options", ErrChanged, d)
	}
	if err := same(p.begun.Input); errors.Is(err, ErrGone) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: the input has changed since (%w): bring it back", ErrChanged, err)
	}
	p.replace = p.begun.Replace
	return p.resume()
}

// Close lets go of the output; an unfinished run stays to be resumed.
func (p *Place) Close() error {
	if p.fresh && p.begun == nil { // an empty folder would only puzzle people
		_ = os.Remove(filepath.Join(p.dir, journalName))
		_ = os.Remove(p.dir)
	}
	// A process that is just being started may share the file for a moment, so
	// closing it would not be enough.
	_ = syscall.Flock(int(p.journal.file.Fd()), syscall.LOCK_UN)
	return p.journal.file.Close()
}

// create makes a file that nobody may read who may not read the output.
func (p *Place) create(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, p.mode|0o600)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return f, nil
}

// syncDir makes names in a folder survive a power loss.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
