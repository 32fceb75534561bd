package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Damage reports that a state file cannot be read, and where the file is kept.
type Damage struct {
	Path  string
	Aside string // where the file is now; empty if it could not be set aside
	Lost  string // the consequences, in sentences for people
	Err   error  // what is wrong with the file

	// Unread means that the file could not be read at all. It is where it was, nothing is
	// known to be wrong with it, and nothing may be written in its place.
	Unread bool
}

// Unread reports whether the system refused to read a file. It may be another time that it
// can be read: the disk answers again, or there are files and memory left.
func Unread(err error) bool {
	errno := unix.Errno(0) // a link in a circle or a socket is in the place of a file, or a file in that of its folder
	return errors.As(err, &errno) && errno != unix.ELOOP && errno != unix.ENXIO && errno != unix.ENOTDIR
}

// String says what is wrong, where the file is kept, and what the consequences are.
func (d *Damage) String() string {
	kept := "is kept as " + filepath.Base(d.Aside)
	if d.Aside == "" {
		kept = "could not be set aside"
	}
	return strings.TrimSpace(fmt.Sprintf("%s is damaged and %s: %v. %s", filepath.Base(d.Path), kept, d.Err, d.Lost))
}

// Salvage returns as much of a damaged file as can be read.
func Salvage(path string) []byte {
	text, _ := read(path) // return what could be read
	return text
}

// SetAside keeps a damaged file under another name. If instead is not nil, SetAside
// writes it to path: whenever the daemon is killed, the next one finds the damaged file
// or that text.
func SetAside(path, lost string, instead []byte, why error) *Damage {
	d := setAside(path, lost, why, func(aside string) error {
		if instead != nil && os.Link(path, aside) == nil {
			return nil
		}
		return os.Rename(path, aside) // also a folder, which cannot be linked
	})
	if instead != nil && d.Aside != "" {
		if err := Replace(path, instead); err != nil {
			d.Err = errors.Join(d.Err, err)
		}
	}
	return d
}

// SetAsideIn keeps a damaged file of a folder under another name, which is on disk then. A
// file that could not be read at all stays where it is.
func SetAsideIn(folder Folder, name, lost string, why error) *Damage {
	if Unread(why) {
		return &Damage{Path: name, Lost: lost, Err: why, Unread: true}
	}
	return setAside(name, lost, why, func(aside string) error {
		if err := folder.Rename(name, aside); err != nil {
			return err
		}
		return folder.Sync()
	})
}

func setAside(path, lost string, why error, rename func(to string) error) *Damage {
	d := &Damage{Path: path, Aside: AsideName(path, time.Now()), Lost: lost, Err: why}
	if err := rename(d.Aside); err != nil {
		d.Aside, d.Err = "", errors.Join(why, err)
	}
	return d
}

// damagedMark is in the name of every file that was set aside.
const damagedMark = ".damaged-"

// AsideName returns the name under which a damaged file is kept.
func AsideName(name string, now time.Time) string {
	return name + damagedMark + now.UTC().Format("20060102T150405.000000Z")
}

// Asides returns the names of the damaged files that are kept in a folder.
func Asides(folder string) (names []string) {
	entries, _ := os.ReadDir(folder) // a folder that cannot be read has none to show
	for _, e := range entries {
		if strings.Contains(e.Name(), damagedMark) {
			names = append(names, e.Name())
		}
	}
	return names
}
