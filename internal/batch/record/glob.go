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
	parts := slices.CompactFunc(strings.Split(rest, "/"), func(a, b string) bool { return a == anyFolders && b == anyFolders })
	if parts[len(parts)-1] == anyFolders {
		parts = append(parts, "*")
	}
	var found []string
	err := expand(root, parts, &found)
	slices.Sort(found)
	return slices.Compact(found), err
}

// expand adds the files in a folder that match the parts of a pattern.
func expand(dir string, parts []string, found *[]string) error {
	all, deep := parts, parts[0] == anyFolders
	if deep { // the others match here, or all of them in any folder
		parts = parts[1:]
	} else if !strings.ContainsAny(parts[0], `*?[\`) { // the folder need not be readable
		path := filepath.Join(dir, parts[0])
		if len(parts) > 1 {
			return expand(path, parts[1:], found)
		}
		stat, err := os.Lstat(path)
		if err == nil && !stat.IsDir() {
			*found = append(*found, path)
		}
		return unlessNone(err)
	}
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return unlessNone(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(dir, name)
		var err error
		switch {
		case !matchName(parts[0], name):
		case len(parts) > 1:
			err = expand(path, parts[1:], found)
		case !entry.IsDir():
			*found = append(*found, path)
		}
		if err == nil && deep && entry.IsDir() && !strings.HasPrefix(name, ".") {
			err = expand(path, all, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unlessNone returns an error, except that there is no such file or folder.
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
