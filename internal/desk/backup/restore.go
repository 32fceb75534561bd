package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/numbers"
)

// restoredFences is far more than the number of grants between a backup and its
// restoration: the fences of those must not be used again.
const restoredFences = 1 << 32

// Options are the options of Restore.
type Options struct {
	Folder  string
	Replace bool // a state folder that is not empty is kept under another name
	Machine Machine
	Now     time.Time
	Step    func(string) // called after each step, for tests; nil: nobody wants to know
}

// Report says what was restored.
type Report struct {
	Folder   string             `json:"folder"`
	Aside    string             `json:"aside,omitempty"` // where the former state folder is
	Version  string             `json:"version"`         // of the berth that made the backup
	Time     time.Time          `json:"time"`            // of the backup
	Secrets  bool               `json:"secrets"`
	Here     bool               `json:"here"` // the backup is of this boot of this machine
	Files    int                `json:"files"`
	Leases   int                `json:"leases"`
	Waiting  int                `json:"waiting"`
	Services int                `json:"services"` // that ran
	Jobs     keeper.Restoration `json:"jobs"`
	Left     []string           `json:"left,omitempty"`     // what the backup does not have, for people
	Problems []Finding          `json:"problems,omitempty"` // what the daemon will tell
}

// Restore makes a state folder from an archive. It makes the whole folder under another
// name beside it, and renames that at the end: a Restore that is killed has changed nothing,
// or everything. What it leaves, the next one removes.
func Restore(from io.Reader, o Options) (did Report, err error) {
	if o.Step == nil {
		o.Step = func(string) {}
	}
	if o.Folder, err = filepath.Abs(o.Folder); err != nil {
		return did, err
	}
	if real, err := filepath.EvalSymlinks(o.Folder); err == nil {
		o.Folder = real
	}
	empty, unlock, err := o.take()
	if err != nil {
		return did, err
	}
	defer unlock()
	fresh, done, err := o.begin()
	if err != nil {
		return did, err
	}
	defer done()
	o.Step("began")
	root, err := os.OpenRoot(fresh)
	if err != nil {
		return did, err
	}
	defer root.Close()
	h, said, err := unpack(from, root, o.Step)
	if err != nil {
		return did, fmt.Errorf("restore: %w. Nothing was changed", err)
	}
	did = Report{Folder: o.Folder, Version: h.Version, Time: h.Time, Secrets: h.Secrets, Files: len(said.Files), Left: said.Left}
	did.Here = h.Machine == o.Machine.ID && h.Boot == o.Machine.Boot && h.Machine != "" && h.Boot != ""
	if err := o.settle(fresh, h, &did); err != nil {
		return did, fmt.Errorf("restore: %w. Nothing was changed", err)
	}
	o.Step("settled")
	did.Problems = Problems(Check(fresh))
	if err := syncFolders(fresh); err != nil {
		return did, err
	}
	o.Step("synced")
	if err := o.swap(fresh, empty); err != nil {
		return did, fmt.Errorf("restore: %w. Nothing was changed", err)
	}
	if !empty {
		o.Step("exchanged")
		did.Aside, err = o.putAside(fresh)
	}
	o.Step("swapped")
	return did, errors.Join(err, file.PrivateDir(filepath.Dir(o.Folder)).Sync())
}

// take looks at the present state folder and keeps daemons from starting with it.
func (o *Options) take() (empty bool, unlock func(), err error) {
	var about unix.Stat_t
	if unix.Stat(o.Folder, &about) == nil && int(about.Uid) != os.Geteuid() {
		return false, nil, doctor.Hinted(fmt.Errorf("%s belongs to user %d", o.Folder, about.Uid), "restore it as that user, whose daemon could not use it otherwise")
	}
	entries, err := os.ReadDir(o.Folder)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return true, func() {}, nil
	case err != nil:
		return false, nil, fmt.Errorf("look at the state folder: %w", err)
	}
	lock, err := file.PrivateDir(filepath.Join(o.Folder, inventory.Leases)).Lock()
	if locked := (*file.LockedError)(nil); errors.As(err, &locked) {
		return false, nil, doctor.Hinted(fmt.Errorf("a daemon runs with %s: process %d", o.Folder, locked.PID), fmt.Sprintf("stop it first: systemctl stop berth, or kill %d where systemd does not run it", locked.PID))
	}
	if err != nil {
		return false, nil, err
	}
	if !o.Replace {
		lock.Close()
		return false, nil, doctor.Hinted(fmt.Errorf("%s is not empty", o.Folder), "restore into another folder with --state-dir DIR, or with --replace, which keeps the present one under another name")
	}
	return false, func() { lock.Close() }, nil
}

const (
	// beside is in the names of the folders in which state folders are made.
	beside = ".restoring-"
	// unfinished is a file in such a folder until just before that is exchanged with the
	// present state folder, so that nobody takes the former one for a leftover.
	unfinished = ".new-0"
)

// begin makes the folder for the new state, and removes those that killed restorations
// left. Whoever works on one has it locked.
func (o *Options) begin() (fresh string, done func(), err error) {
	parent := filepath.Dir(o.Folder)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, fmt.Errorf("make the folder around the state folder: %w", err)
	}
	left, _ := filepath.Glob(filepath.Join(parent, filepath.Base(o.Folder)+beside+"*")) // none with a name that is a bad pattern
	for _, folder := range left {
		if lock, err := lockFolder(folder); err == nil {
			removeUnfinished(folder)
			lock.Close()
		}
	}
	fresh, err = os.MkdirTemp(parent, filepath.Base(o.Folder)+beside)
	if err != nil {
		return "", nil, fmt.Errorf("make a folder beside the state folder: %w", err)
	}
	lock, err := lockFolder(fresh)
	if err == nil {
		err = os.WriteFile(filepath.Join(fresh, unfinished), nil, 0o600)
	}
	if err != nil {
		return "", nil, err
	}
	return fresh, func() {
		removeUnfinished(fresh)
		lock.Close()
	}, nil
}

// removeUnfinished removes a folder that did not become a state folder. It removes the
// mark last, so that whoever is killed meanwhile leaves it.
func removeUnfinished(folder string) {
	if _, err := os.Lstat(filepath.Join(folder, unfinished)); err != nil {
		return
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.Name() != unfinished {
			_ = os.RemoveAll(filepath.Join(folder, e.Name())) // else the next one does
		}
	}
	_ = os.RemoveAll(folder)
}

func lockFolder(folder string) (*os.File, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// settle makes an unpacked state true here: fences, the numbers of jobs and the epochs of
// services go on above all that were given out since the backup, what ran and cannot be
// found is lost, and what belongs to another machine is removed.
func (o *Options) settle(fresh string, h Header, did *Report) error {
	for _, i := range inventory.Items() {
		var err error
		if i.Care == inventory.Bound {
			err = o.settleBound(i.Path, fresh, h.Machine != "" && h.Machine == o.Machine.ID)
		} else if i.Kind == inventory.Runs && did.Here && o.Replace {
			err = linkFiles(filepath.Join(o.Folder, i.Path), filepath.Join(fresh, i.Path), "*")
		}
		if err != nil {
			return err
		}
	}
	if o.Replace {
		// The front runs on, and the next daemon finds it by these files.
		if err := linkFiles(filepath.Join(o.Folder, inventory.Services), filepath.Join(fresh, inventory.Services), "front.*"); err != nil {
			return err
		}
		if err := numbers.Above(filepath.Join(fresh, inventory.Numbers), filepath.Join(o.Folder, inventory.Numbers), o.Now); err != nil {
			return err
		}
	}
	kept := func(folder string) func(run string) bool { // no archive has a record of a run
		return func(run string) bool {
			_, err := os.Lstat(filepath.Join(fresh, folder, run))
			return err == nil
		}
	}
	if err := o.settleLeases(fresh, did); err != nil {
		return err
	}
	o.Step("settled leases")
	if err := o.settleServices(fresh, kept(inventory.ServiceRuns), did); err != nil {
		return err
	}
	o.Step("settled services")
	folder := filepath.Join(fresh, inventory.JobJournal)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var err error
	did.Jobs, err = keeper.Restore(filepath.Join(fresh, inventory.Environments), o.Now, kept(inventory.JobRuns), func(replay func(journal.Entry) error) (journal.Journal, error) {
		log, _, err := filelog.Open(file.PrivateDir(folder), filelog.Options{}, replay)
		return log, err
	})
	return err
}

// settleBound makes a file true that is bound to the machine. What the present state folder
// says of processes and devices is newer than what a backup of the same machine says.
func (o *Options) settleBound(name, fresh string, same bool) error {
	present, to := filepath.Join(o.Folder, name), filepath.Join(fresh, name)
	if _, err := os.Lstat(present); same && (!o.Replace || errors.Is(err, fs.ErrNotExist)) {
		return nil
	}
	if err := os.RemoveAll(to); err != nil || !same {
		return err
	}
	return os.Link(present, to) // whoever writes it replaces it
}

func (o *Options) settleLeases(fresh string, did *Report) error {
	given := uint64(0) // in the present folder, which may itself have gone on from the same backup
	if o.Replace {
		var err error
		given, err = doctor.FencesIn(file.PrivateDir(filepath.Join(o.Folder, inventory.Leases)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	book, err := doctor.SkipFences(filepath.Join(fresh, inventory.Leases), given, restoredFences, "restored from a backup")
	if err != nil {
		return err
	}
	did.Leases = len(book.Leases())
	waiting := map[lease.Key]bool{}
	_, err = filelog.Read(file.PrivateDir(filepath.Join(fresh, inventory.Waiting)), whoWaits(waiting))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // the daemon sets it aside and tells; Check says so, too
	}
	did.Waiting = len(waiting)
	return nil
}

func (o *Options) settleServices(fresh string, runs func(string) bool, did *Report) error {
	path := filepath.Join(fresh, inventory.ServiceFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var text []byte
	if err == nil {
		text, err = file.Unseal(path, data)
	}
	if err == nil {
		text, did.Services, err = owner.Without(text, o.Now, runs)
	}
	if err != nil {
		return nil // the daemon sets it aside and tells; Check says so, too
	}
	return file.Replace(path, text)
}

// linkFiles gives the files of a folder whose names match a pattern second names in another
// one: the records of runs stay locked by their minders.
func linkFiles(from, to, pattern string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	for _, e := range entries {
		if like, _ := filepath.Match(pattern, e.Name()); err == nil && like && e.Type().IsRegular() {
			err = os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		}
	}
	return err
}

// swap gives the new folder its name, in one step. The former one gets the other's.
func (o *Options) swap(fresh string, empty bool) error {
	mode, flags := fs.FileMode(0o700), uint(unix.RENAME_EXCHANGE)
	if info, err := os.Lstat(o.Folder); err == nil {
		mode = info.Mode().Perm()
	}
	if empty {
		flags = 0 // an empty folder is replaced
	}
	mark := filepath.Join(fresh, unfinished)
	if err := errors.Join(os.Chmod(fresh, mode), os.Remove(mark)); err != nil {
		return err
	}
	o.Step("finished")
	if err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, o.Folder, flags); err != nil {
		return doctor.Hinted(errors.Join(fmt.Errorf("give the new state folder the name %s: %w", o.Folder, err), os.WriteFile(mark, nil, 0o600)),
			"unpack into another folder with --state-dir DIR, and move it into place")
	}
	return nil
}

// putAside gives the former state folder a name of its own.
func (o *Options) putAside(former string) (aside string, err error) {
	aside = o.Folder + ".before-" + strings.ReplaceAll(o.Now.UTC().Format("20060102T150405.000"), ".", "")
	if err := unix.Renameat2(unix.AT_FDCWD, former, unix.AT_FDCWD, aside, unix.RENAME_NOREPLACE); err != nil {
		return "", fmt.Errorf("the state is restored, and the former one, in %s, could not get the name %s: %w", former, aside, err)
	}
	return aside, nil
}

// syncFolders makes the names below a folder durable.
func syncFolders(folder string) error {
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return file.PrivateDir(path).Sync()
	})
}
