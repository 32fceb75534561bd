package outcome

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Place is where a run puts its outcomes: the output and the folder beside it,
// locked for this process.
type Place struct {
	site    *site
	folder  *folder
	shape   Shape
	replace bool
	mode    fs.FileMode // of an output that is replaced, or the usual one
	foreign bool        // that output belongs to another user
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
	partName    = "input.part" // of a stream that is still being kept
)

// folderEnding makes the name of the folder from that of the output.
const folderEnding = ".berth"

// Dir is the folder that belongs to an output.
func Dir(output string) string {
	s, err := locate(output)
	if err != nil {
		return output + folderEnding
	}
	defer s.close()
	return s.path + folderEnding
}

// Claim takes an output for this process. An output that exists is ErrExists
// unless force is set, or unless an unfinished run is to replace it. With force
// an unfinished run is forgotten.
func Claim(output string, shape Shape, force bool) (*Place, error) {
	shape, err := shape.settled(output)
	if err != nil {
		return nil, err
	}
	if stat, err := os.Stat(output); err == nil && !stat.Mode().IsRegular() {
		return nil, notAFile(output)
	}
	s, err := locate(output)
	if err != nil {
		return nil, err
	}
	p := &Place{site: s, shape: shape, replace: force, mode: 0o666}
	exists, err := p.claim(force)
	if err != nil {
		s.close()
		return nil, err
	}
	if err := p.find(exists); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// claim looks for the output and locks the folder. After an error nothing of
// that is open any more.
func (p *Place) claim(force bool) (exists bool, err error) {
	if exists, err = p.outputExists(); err != nil {
		return false, err
	}
	var stat unix.Stat_t
	err = unix.Fstatat(int(p.site.dir.Fd()), p.site.name+folderEnding, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if unclaimed := errors.Is(err, fs.ErrNotExist); unclaimed && exists && !force {
		return false, p.existsError()
	}
	return exists, p.lock()
}

func (p *Place) existsError() error {
	return fmt.Errorf("%w: %s is there, and no unfinished run belongs to it", ErrExists, p.site.path)
}

func (p *Place) appearedError() error {
	return fmt.Errorf("%w: %s came into being since the run was begun: move it away and run the same command again (--force would forget what is done)", ErrAppeared, p.site.path)
}

func notAFile(output string) error {
	return fmt.Errorf("output %s is not a file: name one, because a run is resumed from what it has written", output)
}

// outputExists reports whether there is a file with the name of the output. A
// link that has come there since the run was begun is not followed.
func (p *Place) outputExists() (bool, error) {
	stat, err := p.site.state()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("output: %w", err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return false, p.appearedError()
	default:
		return false, notAFile(p.site.path)
	}
	p.mode = fs.FileMode(stat.Mode & 0o777)
	p.foreign = stat.Uid != uint32(os.Geteuid())
	return true, nil
}

// lock opens the journal for this process alone. The lock goes with the
// process, however it ends.
func (p *Place) lock() error {
	for {
		folder, err := p.site.makeFolder()
		if err != nil {
			return err
		}
		file, err := folder.lock()
		if err == nil && file != nil {
			p.folder, p.journal = folder, &journal{file: file}
			return nil
		}
		folder.close()
		if err != nil {
			return err
		}
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
			ErrChanged, p.folder.dir.Name(), p.begun.Version, journalVersion)
	}
	return nil
}

// kept refuses to wipe what a run has kept of a stream and not begun to work
// on: it cannot be read again.
func (p *Place) kept() error {
	for _, name := range []string{spoolName, partName} {
		if stat, err := p.folder.state(name); err == nil && stat.Size > 0 {
			return fmt.Errorf("%w: it was stopped while it kept its standard input; what it had of that, %d bytes, is in %s: move the file away if you need it", ErrGone, stat.Size, p.folder.path(name))
		}
	}
	return nil
}

// wipe forgets the run that was here.
func (p *Place) wipe() error {
	if err := p.journal.cut(0); err != nil {
		return err
	}
	if err := p.folder.remove(logName, orderedName, spoolName, partName); err != nil {
		return fmt.Errorf("output: %w", err)
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
	if p.Resuming() {
		f, err := p.folder.open(spoolName, 0, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%w: it was begun without keeping its standard input", ErrGone)
		}
		if err != nil {
			return "", err
		}
		return f.Name(), f.Close()
	}
	f, err := p.folder.open(partName, os.O_CREATE|os.O_TRUNC, 0o600)
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
	if err := p.folder.rename(partName, spoolName); err != nil {
		return "", fmt.Errorf("output: %w", err)
	}
	return p.folder.path(spoolName), nil
}

// halfKept is the file with the beginning of a stream; empty: there was none.
func (p *Place) halfKept(f *os.File) string {
	if stat, err := f.Stat(); err == nil && stat.Size() == 0 {
		_ = p.folder.remove(partName)
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
		_ = p.folder.remove(journalName)
		_ = p.site.removeFolder()
	}
	// A process that is just being started may share the file for a moment, so
	// closing it would not be enough.
	_ = unix.Flock(int(p.journal.file.Fd()), unix.LOCK_UN)
	p.folder.close()
	p.site.close()
	return p.journal.file.Close()
}

// create makes a file that becomes the output: nobody may read it who may not
// read the output.
func (p *Place) create(name string, flag int) (*os.File, error) {
	return p.folder.open(name, os.O_CREATE|flag, p.mode|0o600)
}
