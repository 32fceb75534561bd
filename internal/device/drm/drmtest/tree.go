// Package drmtest lays out written trees of /sys, /proc and /dev, so that
// backends on package drm can be tested on machines without their hardware.
package drmtest

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/device/drm"
)

// Tree is a directory with a part of the files that Linux shows.
type Tree struct {
	t   testing.TB
	dir string
}

// Lay writes the files of archives into a new directory. A file whose text is
// "-> TARGET" becomes a link, and one whose text is "hex: 0a 0b" gets these
// bytes.
func Lay(t testing.TB, archives ...string) *Tree {
	t.Helper()
	tree := &Tree{t: t, dir: t.TempDir()}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			tree.Write(f.Name, string(f.Data))
		}
	}
	return tree
}

// Root returns the root of the tree.
func (t *Tree) Root() drm.Root { return drm.Root(t.dir) }

// Path returns the path of a file of the tree.
func (t *Tree) Path(name string) string { return filepath.Join(t.dir, name) }

// Write makes a file, with the directories around it.
func (t *Tree) Write(name, text string) {
	t.t.Helper()
	path := t.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.t.Fatal(err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.t.Fatal(err)
	}
	var err error
	if target, is := strings.CutPrefix(text, "-> "); is {
		err = os.Symlink(strings.TrimSpace(target), path)
	} else if digits, is := strings.CutPrefix(text, "hex: "); is {
		var bytes []byte
		if bytes, err = hex.DecodeString(strings.Join(strings.Fields(digits), "")); err == nil {
			err = os.WriteFile(path, bytes, 0o644)
		}
	} else {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.t.Fatal(err)
	}
}

// Remove removes files or directories.
func (t *Tree) Remove(names ...string) {
	t.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(t.Path(name)); err != nil {
			t.t.Fatal(err)
		}
	}
}

// Folder puts a directory where a file should be.
func (t *Tree) Folder(name string) {
	t.t.Helper()
	t.Remove(name)
	if err := os.MkdirAll(t.Path(name), 0o755); err != nil {
		t.t.Fatal(err)
	}
}

// Text returns the contents of a file.
func (t *Tree) Text(name string) string {
	t.t.Helper()
	text, err := os.ReadFile(t.Path(name))
	if err != nil {
		t.t.Fatal(err)
	}
	return string(text)
}

// Log adds a kernel's log to the tree, and returns a function that writes an entry to it.
func (t *Tree) Log() func(entry string) {
	t.t.Helper()
	path := t.Path("dev/kmsg")
	t.Remove("dev/kmsg")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.t.Fatal(err)
	}
	t.t.Cleanup(func() { pipe.Close() })
	return func(entry string) {
		if _, err := pipe.WriteString(entry); err != nil {
			t.t.Error(err)
		}
	}
}
