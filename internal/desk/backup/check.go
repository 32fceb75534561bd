package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Grade says how a file is.
type Grade string

// The grades.
const (
	Sound   Grade = "sound"
	Damaged Grade = "damaged"
	Newer   Grade = "newer"   // a newer berth wrote it
	Unknown Grade = "unknown" // no berth writes such a file there
	Kept    Grade = "kept"    // a daemon has set it aside, because it was damaged
)

// Finding is what is known of a file or a folder of a state folder.
type Finding struct {
	File    string `json:"file"`
	What    string `json:"what,omitempty"` // it is for
	Version int    `json:"version,omitempty"`
	Size    int64  `json:"size_bytes"`
	Grade   Grade  `json:"grade"`
	Text    string `json:"text,omitempty"` // what is wrong
	Next    string `json:"next,omitempty"` // what to do
}

// Check looks at every file of a state folder, in the order of the table of package
// inventory; what it does not know follows. It changes nothing, and a daemon may run.
func Check(folder string) []Finding {
	c := checker{folder: folder, root: os.DirFS(folder), files: map[string][]string{}}
	_ = fs.WalkDir(c.root, ".", c.sort) // what cannot be read is a finding
	var all []Finding
	for _, i := range inventory.Items() {
		if names := c.files[i.Path]; len(names) > 0 {
			all = append(all, c.item(i, names))
		}
	}
	return append(all, c.others...)
}

// Problems returns the findings that are not sound.
func Problems(all []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Grade == Sound })
}

// checker checks a state folder.
type checker struct {
	folder string
	root   fs.FS
	files  map[string][]string // by the item that they belong to
	others []Finding
}

// sort finds out where a file belongs.
func (c *checker) sort(name string, e fs.DirEntry, err error) error {
	strange := func(g Grade, text, next string) {
		size := int64(0)
		if info, err := e.Info(); err == nil {
			size = info.Size()
		}
		c.others = append(c.others, Finding{File: name, Size: size, Grade: g, Text: text, Next: next})
	}
	i, known := inventory.Find(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it came and went
	case err != nil:
		c.others = append(c.others, Finding{File: name, Grade: Unknown, Text: err.Error(), Next: "look as the user of the daemon"})
	case strings.Contains(e.Name(), ".damaged-"):
		strange(Kept, "a daemon has set it aside, because it was damaged", "remove it when nobody needs it any more")
		if e.IsDir() {
			return fs.SkipDir
		}
	case e.IsDir() && known && i.Care == inventory.Left:
		c.files[i.Path] = append(c.files[i.Path], name)
		return fs.SkipDir
	case e.IsDir() || inventory.Passing(name):
	case !e.Type().IsRegular():
		strange(Unknown, "it is not a regular file", "remove it: berth makes none")
	case inventory.Copyable(name):
		c.files[i.Path] = append(c.files[i.Path], name)
	default:
		strange(Unknown, "berth does not know it", "remove it, unless a newer berth wrote it")
	}
	return nil
}

// newer means that a newer berth wrote a file.
type newer struct{ error }

// item checks a file, or the files of a folder.
func (c *checker) item(i inventory.Item, names []string) Finding {
	f := Finding{File: i.Path, What: i.What, Version: i.Version, Grade: Sound}
	for _, name := range names {
		if info, err := fs.Stat(c.root, name); err == nil && !info.IsDir() {
			f.Size += info.Size()
		}
	}
	var err error
	switch i.Kind {
	case inventory.State:
		f.Version, err = c.state(i)
	case inventory.Journal:
		err = c.journal(i)
	case inventory.Lines:
		err = c.lines(i, names)
	case inventory.Folder:
		err = c.each(names, func(name string, data []byte) error {
			_, err := file.Unseal(name, data)
			return err
		})
	case inventory.Past:
		err = c.each(names, checkPast)
	}
	if err == nil {
		return f
	}
	f.Grade, f.Text = Damaged, strings.TrimSuffix(err.Error(), ". Nothing was changed")
	late, old, entry := newer{}, (*journal.VersionError)(nil), (*stored.VersionError)(nil)
	switch {
	case errors.As(err, &late), errors.As(err, &old), errors.As(err, &entry):
		f.Grade, f.Next = Newer, "start the newer berth that wrote it, or restore a backup of this one"
	case i.Path == inventory.Leases, i.Path == inventory.JobJournal:
		f.Next = "stop the daemon and restore a backup (berth restore), or keep what is before the damage: berth journal repair"
	case i.Path == inventory.Audit:
		f.Next = "see all of it: berth audit verify"
	default:
		f.Next = "the daemon sets it aside at its next start, and goes on without: " + words.LowerFirst(strings.TrimSuffix(i.Lost, ".")) + ". Or stop the daemon, and restore a backup"
	}
	return f
}

// state checks a state file, and returns its version.
func (c *checker) state(i inventory.Item) (version int, err error) {
	data, err := fs.ReadFile(c.root, i.Path)
	if err != nil {
		return 0, err
	}
	text, err := file.Unseal(i.Path, data)
	if err != nil {
		return 0, err
	}
	if i.Path == inventory.Saved {
		_, err := config.ParseSaved(i.Path, text)
		return 0, err
	}
	var is struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return 0, err
	}
	if is.Version > i.Version && i.Version > 0 {
		return is.Version, newer{file.VersionError(is.Version, i.Version)}
	}
	return is.Version, nil
}

// journal checks a journal.
func (c *checker) journal(i inventory.Item) error {
	_, err := doctor.ReadJournal(filepath.Join(c.folder, i.Path), map[string]func() func(journal.Entry) error{
		inventory.Leases:     func() func(journal.Entry) error { return doctor.Believe(lease.New()) },
		inventory.Waiting:    func() func(journal.Entry) error { return whoWaits(map[lease.Key]bool{}) },
		inventory.JobJournal: keeper.Check,
	}[i.Path])
	return err
}

// lines checks the audit log by its chain of hashes, and events by the checksums of their
// lines.
func (c *checker) lines(i inventory.Item, names []string) error {
	if i.Path == inventory.Audit {
		verdict, err := doctor.VerifyAudit(c.folder)
		if err != nil { // perhaps it is the journal, which names the newest entry
			verdict, err = audit.Verify(file.Dir(filepath.Join(c.folder, inventory.Audit)), audit.Mark{})
		}
		if err == nil && !verdict.Sound {
			err = errors.New(verdict.Problems[0].Text)
		}
		return err
	}
	return c.each(names, func(name string, data []byte) error {
		number := 0
		for text, sound := range file.UnsealLines(file.WholeLines(data)) {
			number++
			var is struct {
				Version int `json:"version"`
			}
			if !sound || json.Unmarshal(text, &is) != nil {
				return fmt.Errorf("line %d is not as it was written", number)
			}
			if number == 1 && is.Version > i.Version {
				return newer{file.VersionError(is.Version, i.Version)}
			}
		}
		return nil
	})
}

// each checks each file of a folder.
func (c *checker) each(names []string, check func(name string, data []byte) error) error {
	for _, name := range names {
		data, err := fs.ReadFile(c.root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it came and went
		}
		if err == nil {
			err = check(name, data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path.Base(name), err)
		}
	}
	return nil
}

// whoWaits returns a function that notes who waits.
func whoWaits(waiting map[lease.Key]bool) func(journal.Entry) error {
	return func(e journal.Entry) error {
		k, r, err := lease.ReadWaiting(e.Data)
		if err != nil {
			return fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		if delete(waiting, k); r != nil {
			waiting[k] = true
		}
		return nil
	}
}
