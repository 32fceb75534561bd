package record

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// anyFolders between the slashes of a pattern stands for any number of folders,
// or none.
const anyFolders = "**"

// glob returns the files that match a pattern, alphabetically. A pattern is as
// in filepath.Match and may contain anyFolders. As in a shell, a name that begins with a
// dot matches only what begins with a dot. A folder that cannot be read is an error: it may
// hold records. glob does not follow links to folders for anyFolders.
func glob(pattern string) ([]string, error) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, err
	}
	root, rest := "", filepath.Clean(pattern) // like the paths found below
	if strings.HasPrefix(rest, "/") {
		root, rest = "/", rest[1:]
	}
	var found []string
	if err := expand(root, strings.Split(rest, "/"), &found); err != nil {
		return nil, err
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// expand adds the files in a folder that match the parts of a pattern.
func expand(dir string, parts []string, found *[]string) error {
	here := cmp.Or(dir, ".")
	if parts[0] == anyFolders {
		dotted := slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, ".") })
		return below(here, dotted, func(path string) {
			name, err := filepath.Rel(here, path)
			if err == nil && matchParts(parts, strings.Split(name, "/")) {
				*found = append(*found, path)
			}
		})
	}
	names := []string{parts[0]}
	if strings.ContainsAny(parts[0], `*?[\`) {
		entries, err := os.ReadDir(here)
		if err != nil {
			return unlessNone(err)
		}
		names = names[:0]
		for _, entry := range entries {
			if matchName(parts[0], entry.Name()) {
				names = append(names, entry.Name())
			}
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		look := os.Stat
		if len(parts) == 1 {
			look = os.Lstat // a link that leads nowhere is found, and said to be one
		}
		stat, err := look(path)
		switch {
		case err != nil:
			err = unlessNone(err)
		case len(parts) == 1:
			*found = append(*found, path)
		case stat.IsDir():
			err = expand(path, parts[1:], found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below calls each for all files below a folder, those in hidden folders only if hidden is
// set.
func below(dir string, hidden bool, each func(path string)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == dir:
			return unlessNone(err)
		case err != nil:
			return err
		case !entry.IsDir():
			each(path)
		case path != dir && !hidden && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		}
		return nil
	})
}

// unlessNone returns an error, except that something does not exist.
func unlessNone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// matchName reports whether a name matches a part of a pattern.
func matchName(part, name string) bool {
	match, _ := filepath.Match(part, name) // an invalid pattern matches nothing
	return match && (!strings.HasPrefix(name, ".") || strings.HasPrefix(part, "."))
}

// matches reports whether a path matches a pattern.
func matches(pattern, path string) bool {
	return matchParts(strings.Split(pattern, "/"), strings.Split(path, "/"))
}

func matchParts(pattern, path []string) bool {
	if len(pattern) == 0 || len(path) == 0 && pattern[0] != anyFolders {
		return len(pattern) == len(path)
	}
	if pattern[0] != anyFolders {
		return matchName(pattern[0], path[0]) && matchParts(pattern[1:], path[1:])
	}
	for skip := range len(path) + 1 {
		if skip > 0 && strings.HasPrefix(path[skip-1], ".") {
			break // a hidden folder
		}
		if matchParts(pattern[1:], path[skip:]) {
			return true
		}
	}
	return false
}
