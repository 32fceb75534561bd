// Package backup copies the state folder of a daemon into an archive, restores it, and
// checks it.
//
// An archive is a gzipped tar file. Its first entry, berth-backup.json, says what wrote it
// and where; its last one, berth-sums.json, has the length and the SHA-256 sum of each file
// between them, so that an archive without its end is noticed.
//
// A copy of a running daemon is what a daemon that is killed at one moment leaves on disk:
// all journals and state files are those of the same moment, for which nobody waits longer
// than it takes to open the files. Package inventory says what is copied.
package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/job/owner"
)

// Format is the newest format of an archive that this berth reads, and the one that it
// writes.
const Format = 1

const (
	headerName = "berth-backup.json"
	sumsName   = "berth-sums.json"
	// mostText is the most bytes of these two, and of a state file.
	mostText = 64 << 20
)

// Header is the first entry of an archive.
type Header struct {
	Format  int            `json:"format"`
	Version string         `json:"version"` // of the berth that wrote it
	Time    time.Time      `json:"time"`
	Machine string         `json:"machine,omitempty"` // a hash of the machine id; empty if not known
	Boot    string         `json:"boot,omitempty"`
	Secrets bool           `json:"secrets"`
	Formats map[string]int `json:"formats"` // the version of each format, by path
}

// sums is the last entry of an archive.
type sums struct {
	Files map[string]sum `json:"files"`
	Left  []string       `json:"left,omitempty"` // what could not be copied, for people
}

type sum struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Machine is one boot of one machine.
type Machine struct{ ID, Boot string }

// Here returns the present boot of this machine. What is not known is empty. The id of the
// machine is a hash of the kernel's, which is not for others to know.
func Here() Machine {
	read := func(path string) string {
		text, _ := os.ReadFile(path) // empty if it cannot be read
		return strings.TrimSpace(string(text))
	}
	m := Machine{Boot: read("/proc/sys/kernel/random/boot_id")}
	if id := read("/etc/machine-id"); id != "" {
		of := sha256.Sum256([]byte("berth backup " + id))
		m.ID = hex.EncodeToString(of[:16])
	}
	return m
}

// Source is a state folder to copy.
type Source struct {
	Folder  string
	Logs    map[string]*filelog.Log // the open journals of the daemon, by their paths; none if no daemon runs
	Secrets bool                    // copy secrets, too
	NoPast  bool                    // leave out what was measured
	Version string                  // of berth
	Machine Machine
	Now     time.Time
}

// Write writes an archive of a state folder. Without open journals, the caller has the lock
// of the folder.
func Write(to io.Writer, s Source) error {
	root, err := os.OpenRoot(s.Folder)
	if err != nil {
		return fmt.Errorf("open the state folder: %w", err)
	}
	defer root.Close()
	zip := gzip.NewWriter(to)
	w := &writer{Source: s, root: root, tar: tar.NewWriter(zip), sums: sums{Files: map[string]sum{}}}
	defer w.close()
	if err := w.write(); err != nil {
		return fmt.Errorf("back up %s: %w", s.Folder, err)
	}
	return errors.Join(w.tar.Close(), zip.Close())
}

// writer writes an archive.
type writer struct {
	Source
	root *os.Root
	tar  *tar.Writer
	sums sums
	open []opened
}

// opened is a file that was opened at the moment of the copy.
type opened struct {
	io.ReadCloser
	inventory.Item
	name string
	size int64
}

func (w *writer) close() {
	for _, o := range w.open {
		o.Close()
	}
}

func (w *writer) write() error {
	h := Header{Format: Format, Version: w.Version, Time: w.Now.UTC(), Machine: w.Machine.ID, Boot: w.Machine.Boot, Secrets: w.Secrets, Formats: map[string]int{}}
	for _, i := range inventory.Items() {
		if i.Version > 0 {
			h.Formats[i.Path] = i.Version
		}
	}
	if err := w.json(headerName, h); err != nil {
		return err
	}
	if err := w.moment(); err != nil {
		return err
	}
	for _, o := range w.open {
		if err := w.addOpened(o); err != nil {
			return err
		}
	}
	for _, i := range w.items() {
		var err error
		switch i.Kind {
		case inventory.Folder:
			err = w.folder(i.Path)
		case inventory.Past:
			err = w.past(i.Path)
		}
		if err != nil {
			return err
		}
	}
	return w.json(sumsName, w.sums)
}

// items returns what the archive has files of.
func (w *writer) items() []inventory.Item {
	return slices.DeleteFunc(inventory.Items(), func(i inventory.Item) bool {
		return i.Care == inventory.Left || i.Care == inventory.Secret && !w.Secrets || i.Kind == inventory.Past && w.NoPast
	})
}

// moment copies the journals of a running daemon, and opens every file that belongs to the
// same moment. State files are never changed but replaced, so that an open one stays as it
// was.
func (w *writer) moment() error {
	logs, names := []*filelog.Log{}, map[*filelog.Log]string{}
	for name, l := range w.Logs {
		logs, names[l] = append(logs, l), name
	}
	return filelog.Copy(logs, w.openAll, func(l *filelog.Log, name string, data []byte) error {
		w.open = append(w.open, opened{name: path.Join(names[l], name), ReadCloser: io.NopCloser(bytes.NewReader(data)), size: int64(len(data))})
		return nil
	})
}

func (w *writer) openAll() error {
	for _, i := range w.items() {
		if w.Logs[i.Path] != nil {
			continue
		}
		names := []string{i.Path}
		switch i.Kind {
		case inventory.Past, inventory.Folder: // copied later
			continue
		case inventory.Journal, inventory.Lines:
			var err error
			if names, err = w.list(i.Path); err != nil {
				return err
			}
		}
		for _, name := range names {
			o, err := w.openFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			o.Item = i
			w.open = append(w.open, o)
		}
	}
	return nil
}

// openFile opens a regular file and follows no link in its place.
func (w *writer) openFile(name string) (opened, error) {
	f, err := w.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return opened{}, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return opened{}, errors.Join(err, f.Close())
	}
	return opened{name: name, ReadCloser: f, size: info.Size()}, nil
}

// list returns the files of a folder that are copied, with their paths. A folder that is
// not there has none.
func (w *writer) list(folder string) (names []string, err error) {
	entries, err := fs.ReadDir(w.root.FS(), folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name := path.Join(folder, e.Name()); !e.IsDir() && inventory.Copyable(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// addOpened adds an open file, as its kind and its care want it.
func (w *writer) addOpened(o opened) error {
	if o.Kind == inventory.State && o.size > mostText {
		w.sums.Left = append(w.sums.Left, fmt.Sprintf("%s is larger than %d MiB, and was left out", o.name, mostText>>20))
		return nil
	}
	cleaned := o.Care == inventory.Cleaned && !w.Secrets
	if o.Kind != inventory.Lines && !cleaned {
		return w.stream(o)
	}
	data, err := io.ReadAll(io.LimitReader(o, o.size))
	if err != nil {
		return err
	}
	if o.Kind == inventory.Lines {
		data = file.WholeLines(data)
	}
	if cleaned {
		if data, err = clean(o.name, data); err != nil {
			w.sums.Left = append(w.sums.Left, fmt.Sprintf("%s may hold secrets and cannot be read, so it was left out: %v", o.name, err))
			return nil
		}
	}
	return w.add(o.name, data)
}

// clean returns a state file without the secrets in it.
func clean(name string, data []byte) ([]byte, error) {
	text, err := file.Unseal(name, data)
	if err != nil {
		return nil, err
	}
	switch name {
	case inventory.Saved:
		text, _, err = config.WithoutSecrets(name, text)
	case inventory.ServiceFile:
		text, _, err = owner.Without(text, time.Time{}, func(string) bool { return false })
	default:
		err = errors.New("nobody knows its secrets")
	}
	if err != nil {
		return nil, err
	}
	return file.Seal(name, text), nil
}

// folder adds the files of a folder that may come and go.
func (w *writer) folder(of string) error {
	names, err := w.list(of)
	for _, name := range names {
		o, err := w.openFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nobody needs it any more
		}
		if err != nil {
			return err
		}
		if err := w.stream(o); err != nil {
			return err
		}
	}
	return err
}

// past adds what was measured: first the logs of what is not in a block yet, then the
// blocks, so that nothing is in neither. Blocks never change; when some are joined, they go and
// another one comes.
func (w *writer) past(of string) error {
	for _, store := range inventory.Stores() {
		folder := path.Join(of, store)
		for _, part := range []string{path.Join(folder, "wal"), folder} {
			if err := w.together(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// together adds all files of a folder and those below it, but for a log in it, as long as they
// are. If one goes while they are opened, it begins again, and adds none if the folder is gone.
func (w *writer) together(folder string) error {
	for range 100 {
		var files []opened
		err := fs.WalkDir(w.root.FS(), folder, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err == nil && e.IsDir() && (inventory.Passing(name) || name != folder && e.Name() == "wal"):
				return fs.SkipDir
			case err != nil || e.IsDir() || !inventory.Copyable(name):
				return err
			}
			o, err := w.openFile(name)
			if err == nil {
				files = append(files, o)
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			for _, o := range files {
				o.Close()
			}
			if _, err := w.root.Stat(folder); errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			continue
		}
		for _, o := range files {
			err = errors.Join(err, w.stream(o))
		}
		return err
	}
	return fmt.Errorf("%s changes all the time", folder)
}

// stream adds a file of any size, and closes it.
func (w *writer) stream(o opened) error {
	defer o.Close()
	return w.copy(o.name, o.size, io.LimitReader(o, o.size))
}

func (w *writer) json(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return w.add(name, append(text, '\n'))
}

func (w *writer) add(name string, data []byte) error {
	return w.copy(name, int64(len(data)), bytes.NewReader(data))
}

// copy adds a file, and notes its sum.
func (w *writer) copy(name string, size int64, from io.Reader) error {
	err := w.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: size, ModTime: w.Now, Format: tar.FormatPAX})
	hash := sha256.New()
	if err == nil {
		_, err = io.Copy(io.MultiWriter(w.tar, hash), from)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	if name != headerName && name != sumsName {
		w.sums.Files[name] = sum{size, hex.EncodeToString(hash.Sum(nil))}
	}
	return nil
}

// Offline writes an archive of a state folder that no daemon uses, and keeps daemons from
// starting with it meanwhile.
func Offline(to io.Writer, s Source) error {
	if _, err := os.Stat(filepath.Join(s.Folder, inventory.Leases)); err != nil {
		return doctor.Hinted(fmt.Errorf("%s is not the state folder of a daemon: %w", s.Folder, err), "name it: --state-dir DIR")
	}
	lock, err := file.PrivateDir(filepath.Join(s.Folder, inventory.Leases)).Lock()
	if locked := (*file.LockedError)(nil); errors.As(err, &locked) {
		return doctor.Hinted(fmt.Errorf("a daemon uses %s, process %d, and does not answer here", s.Folder, locked.PID), "name its socket: --socket PATH")
	}
	if err != nil {
		return err
	}
	return errors.Join(Write(to, s), lock.Close())
}
