package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// Folder keeps the files of leases.
type Folder struct {
	Dirs []string // the first has our files; all of them may have vendors' files, the last takes precedence
}

const (
	prefix    = "berth.dev-lease_"
	suffix    = ".json"
	unwritten = ".tmp" // runtimes read .json and .yaml only
)

func (f Folder) ours() (string, error) {
	if len(f.Dirs) == 0 || f.Dirs[0] == "" {
		return "", errors.New("there is no folder for CDI files")
	}
	return f.Dirs[0], nil
}

func (f Folder) paths(claimUID string) (whole, part string, err error) {
	dir, err := f.ours()
	if err == nil && !uid.MatchString(claimUID) {
		err = fmt.Errorf("%q is not the UID of a claim", claimUID)
	}
	whole = filepath.Join(dir, prefix+claimUID+suffix)
	return whole, filepath.Join(dir, "."+prefix+claimUID+unwritten), err
}

// Write writes the file of a claim, and replaces an older one. A reader sees one or the
// other, never a part.
func (f Folder) Write(spec *specs.Spec, claimUID string) error {
	whole, part, err := f.paths(claimUID)
	if err == nil {
		err = write(spec, whole, part)
	}
	if err != nil {
		return fmt.Errorf("write the CDI file of claim %s: %w", claimUID, err)
	}
	return nil
}

func write(spec *specs.Spec, whole, part string) error {
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(whole), 0o755); err != nil {
		return err
	}
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // only the runtime reads it
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(part, whole)
	}
	if err != nil {
		_ = os.Remove(part)
		return err
	}
	return sync(filepath.Dir(whole))
}

// sync makes changes of names in a folder durable.
func sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remove removes the file of a claim, and the leftovers of a killed driver. A missing
// file is no error.
func (f Folder) Remove(claimUID string) error {
	whole, part, err := f.paths(claimUID)
	if err == nil {
		err = errors.Join(remove(whole), remove(part))
	}
	if err != nil {
		return fmt.Errorf("remove the CDI file of claim %s: %w", claimUID, err)
	}
	return nil
}

// remove removes a file, if it exists. A read-only folder refuses even to remove a file
// that does not exist.
func remove(path string) error {
	err := os.Remove(path)
	if _, found := os.Lstat(path); err != nil && errors.Is(found, fs.ErrNotExist) {
		return nil
	}
	return err
}

// gone returns err, or nil if it says that there is no such file.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List returns the UIDs of the claims that have a whole file, in order.
func (f Folder) List() ([]string, error) {
	return f.matching(prefix, suffix)
}

// Clean removes files that killed drivers left half written. Nothing may be written at
// the same time.
func (f Folder) Clean() error {
	list, err := f.matching("."+prefix, unwritten)
	for _, claimUID := range list {
		_, part, _ := f.paths(claimUID)
		err = errors.Join(err, gone(os.Remove(part)))
	}
	return err
}

func (f Folder) matching(before, after string) ([]string, error) {
	dir, err := f.ours()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if gone(err) != nil {
		return nil, fmt.Errorf("list the CDI files: %w", err)
	}
	var list []string
	for _, e := range entries {
		name, found := strings.CutPrefix(e.Name(), before)
		name, ends := strings.CutSuffix(name, after)
		if found && ends && uid.MatchString(name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list, nil
}
