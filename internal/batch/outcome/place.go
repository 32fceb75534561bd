package outcome

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/text/words"
)

// Place is the output of a run and the folder beside it, locked for this
// process.
type Place struct {
	site    *site
	folder  *folder
	shape   Shape
	replace bool
	mode    fs.FileMode // mode of an output that is replaced, or the usual one
	foreign bool        // whether that output belongs to another user
	journal *journal
	fresh   bool    // whether nothing here is worth keeping
	begun   *header // header of the run to continue; nil if there is none
}

// Names in the folder.
const (
	journalName = "journal"
	logName     = "outcomes"
	orderedName = "ordered"
	spoolName   = "input"
	partName    = "input.part" // beginning of a stream that is still being copied
)

// folderEnding is appended to the name of the output to name the folder.
const folderEnding = ".berth"

// Dir returns the folder that belongs to an output.
func Dir(output string) string {
	s, err := locate(output)
	if err != nil {
		return output + folderEnding
	}
	defer s.close()
	return s.path + folderEnding
}

// Claim locks an output for this process. If the output exists, Claim returns
// ErrExists, unless force is set or an unfinished run replaces it. With force,
// Claim forgets an unfinished run.
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

// claim finds the output and locks the folder. After an error, nothing stays
// open.
func (p *Place) claim(force bool) (exists bool, err error) {
	if exists, err = p.outputExists(); err != nil {
		return false, err
	}
	_, err = stateAt(p.site.dir, p.site.name+folderEnding, p.site.path+folderEnding)
	if unclaimed := errors.Is(err, fs.ErrNotExist); unclaimed && exists && !force {
		return false, p.existsError()
	}
	return exists, p.lock()
}

func (p *Place) existsError() error {
	return fmt.Errorf("%w: %s exists, and no unfinished run belongs to it", ErrExists, p.site.path)
}

func (p *Place) appearedError() error {
	return fmt.Errorf("%w: %s appeared after the run began: move it away and run the same command again (--force would discard the outcomes)", ErrAppeared, p.site.path)
}

func notAFile(output string) error {
	return fmt.Errorf("output %s is not a file: name one, because a run is resumed from what it has written", output)
}

// outputExists reports whether a file has the name of the output. It does not
// follow a link that appeared there after the run began.
func (p *Place) outputExists() (bool, error) {
	stat, err := stateAt(p.site.dir, p.site.name, p.site.path)
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

// lock opens the journal for this process alone. The lock ends with the
// process, however that ends.
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

// find looks for a run to continue.
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

// kept returns an error if a run has kept a stream and not begun to work on it:
// the stream cannot be read again, so it must not be wiped.
func (p *Place) kept() error {
	for _, name := range []string{spoolName, partName} {
		if stat, err := p.folder.state(name); err == nil && stat.Size > 0 {
			return fmt.Errorf("%w: it was stopped while it read standard input; the %d bytes that it read are in %s: move the file away if you need it", ErrGone, stat.Size, p.folder.path(name))
		}
	}
	return nil
}

// wipe removes the run that was here.
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

// Resuming reports whether there is a run to continue.
func (p *Place) Resuming() bool { return p.begun != nil }

// Spool keeps a stream in a file, so that the run can be resumed, and returns
// the path of the file. A resumed run has the file already and reads nothing.
// When ctx ends, the file holds what came until then, and one more read from
// the stream may be under way.
func (p *Place) Spool(ctx context.Context, r io.Reader) (string, error) {
	if p.Resuming() {
		f, err := p.folder.open(spoolName, 0, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%w: it did not keep its standard input", ErrGone)
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
	p.fresh = false // from here on, only this folder has what is read
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, r)
		copied <- err
	}()
	select {
	case <-ctx.Done(): // the stream may be silent for a long time, so do not wait for its reader
		return p.halfKept(f), ctx.Err()
	case err := <-copied:
		if err != nil {
			return "", writeError("keep the input in", f.Name(), err)
		}
	}
	if err := f.Sync(); err != nil {
		return "", writeError("sync", f.Name(), err)
	}
	path, dir := p.folder.path(spoolName), int(p.folder.dir.Fd())
	if err := unix.Renameat(dir, partName, dir, spoolName); err != nil {
		return "", fmt.Errorf("output: %w", &os.LinkError{Op: "rename", Old: f.Name(), New: path, Err: err})
	}
	return path, nil
}

// halfKept returns the path of the file with the beginning of a stream, or "".
func (p *Place) halfKept(f *os.File) string {
	if stat, err := f.Stat(); err == nil && stat.Size() == 0 {
		_ = p.folder.remove(partName)
		p.fresh = true
		return ""
	}
	return f.Name()
}

// Begin continues the unfinished run if its workers have the same command and same accepts
// its input, or begins a new run.
func (p *Place) Begin(command []string, input json.RawMessage, same func(before json.RawMessage) error) (*Log, error) {
	if p.begun == nil {
		return p.beginNew(command, input)
	}
	if before := p.begun.Command; len(before) > 0 && !slices.Equal(command, before) {
		return nil, fmt.Errorf("%w: its workers are %s, and outcomes of both would be mixed: use that command", ErrChanged, shellLine(before))
	}
	if d := p.shape.difference(p.begun.Shape); d != "" {
		return nil, fmt.Errorf("%w: %s: use the same options", ErrChanged, d)
	}
	differs := same(p.begun.Input)
	if differs != nil && !errors.Is(differs, ErrGone) {
		return nil, fmt.Errorf("%w: the input has changed (%w): restore it", ErrChanged, differs)
	}
	p.replace = p.begun.Replace
	l, err := p.resume()
	if err == nil && differs != nil && !l.Complete() { // a run that is complete needs no input
		return nil, errors.Join(differs, l.file.Close())
	}
	return l, err
}

// shellLine writes a command as people do.
func shellLine(command []string) string {
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = words.Shell(word)
	}
	return strings.Join(quoted, " ")
}

// Close unlocks the output. An unfinished run stays, to be resumed.
func (p *Place) Close() error {
	if p.fresh && p.begun == nil { // an empty folder would only puzzle people
		_ = p.folder.remove(journalName)
		_ = p.site.removeFolder()
	}
	// A process that is starting right now may share the file for a moment, so
	// closing it is not enough.
	_ = unix.Flock(int(p.journal.file.Fd()), unix.LOCK_UN)
	p.folder.close()
	p.site.close()
	return p.journal.file.Close()
}

// create creates a file that becomes the output. Only those who may read the
// output may read the file.
func (p *Place) create(name string, flag int) (*os.File, error) {
	return p.folder.open(name, os.O_CREATE|flag, p.mode|0o600)
}
