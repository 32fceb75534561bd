package record

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// anyFolders between the slashes of a pattern stands for any number of folders,
// or none.
const anyFolders = "**"

// glob returns the files that match a pattern, alphabetically. A pattern is as
// in filepath.Match and may contain anyFolders. glob does not follow links to
// folders.
func glob(pattern string) ([]string, error) {
	pattern = filepath.Clean(pattern) // like the paths found below
	parts := strings.Split(pattern, "/")
	at := slices.Index(parts, anyFolders)
	if at < 0 {
		return filepath.Glob(pattern) // sorted
	}
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, err
	}
	root := strings.Join(parts[:at], "/")
	if root == "" && at > 0 {
		root = "/"
	}
	roots := []string{"."}
	if root != "" {
		roots, _ = filepath.Glob(root) // a part of a valid pattern is valid
	}
	var found []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && matches(pattern, path) {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
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
		match, _ := filepath.Match(pattern[0], path[0]) // an invalid pattern matches nothing
		return match && matchParts(pattern[1:], path[1:])
	}
	for skip := range len(path) + 1 {
		if matchParts(pattern[1:], path[skip:]) {
			return true
		}
	}
	return false
}
