package record

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// anyFolders between the slashes of a pattern stands for any number of folders,
// also none.
const anyFolders = "**"

// glob lists the files of a pattern, which is as in filepath.Match and may have
// anyFolders in it, alphabetically. Links to folders are not followed.
func glob(pattern string) ([]string, error) {
	pattern = filepath.Clean(pattern) // as paths are that are found below
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
		roots, _ = filepath.Glob(root) // a part of a pattern that is right
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

// matches reports whether a path is one of a pattern's.
func matches(pattern, path string) bool {
	return matchParts(strings.Split(pattern, "/"), strings.Split(path, "/"))
}

func matchParts(pattern, path []string) bool {
	if len(pattern) == 0 || len(path) == 0 && pattern[0] != anyFolders {
		return len(pattern) == len(path)
	}
	if pattern[0] != anyFolders {
		match, _ := filepath.Match(pattern[0], path[0]) // a pattern that is wrong matches nothing
		return match && matchParts(pattern[1:], path[1:])
	}
	for skip := range len(path) + 1 {
		if matchParts(pattern[1:], path[skip:]) {
			return true
		}
	}
	return false
}
