package cdi

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi") // made when it is needed: it is on a file system in memory
	f := Folder{Dirs: []string{dir}}
	check := func(what string, want ...string) {
		t.Helper()
		if got, err := f.List(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	check("no folder")
	if err := f.Clean(); err != nil {
		t.Error(err)
	}
	spec := &specs.Spec{Version: version, Kind: kind, Devices: []specs.Device{{Name: "b", ContainerEdits: specs.ContainerEdits{Env: []string{"A=1"}}}}}
	for _, uid := range []string{"b", "a", "b"} {
		if err := f.Write(spec, uid); err != nil {
			t.Fatal(err)
		}
	}
	check("two claims", "a", "b")
	for _, other := range []string{"nvidia.yaml", prefix + "x.yaml", prefix + "..json", "." + prefix + "c" + unwritten} {
		if err := os.WriteFile(filepath.Join(dir, other), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("with other files", "a", "b")
	for range 2 {
		if err := f.Remove("a"); err != nil {
			t.Error(err)
		}
	}
	check("one claim", "b")
	info, err := os.Stat(filepath.Join(dir, prefix+"b"+suffix))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A driver can be killed at every line: what it leaves is the old file, the new one, or
// a part under a name that runtimes do not read, and the next write or removal takes
// that away.
func TestHalfWrittenFiles(t *testing.T) {
	f := Folder{Dirs: []string{t.TempDir()}}
	part := filepath.Join(f.Dirs[0], "."+prefix+"a"+unwritten)
	leave := func() {
		if err := os.WriteFile(part, []byte(`{"cdi`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := &specs.Spec{Version: version, Kind: kind, Devices: []specs.Device{{Name: "a"}}}
	for name, end := range map[string]func() error{
		"write": func() error { return f.Write(spec, "a") }, "remove": func() error { return f.Remove("a") }, "clean": f.Clean,
	} {
		leave()
		if list, err := f.List(); err != nil || slices.Contains(list, "") || len(list) > 1 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		if err := end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(part); !os.IsNotExist(err) {
			t.Errorf("%s leaves the part: %v", name, err)
		}
	}
	// Somebody else's file under the name of the part is not written to.
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, part); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(spec, "a"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(victim); err != nil || !bytes.Equal(text, []byte("mine")) {
		t.Errorf("the file behind a link has %q, %v", text, err)
	}
}

func TestFolderRefuses(t *testing.T) {
	f := Folder{Dirs: []string{t.TempDir()}}
	spec := &specs.Spec{Version: version, Kind: kind}
	for _, uid := range []string{"", "..", "../x", "a/b", "a\x00"} {
		if f.Write(spec, uid) == nil || f.Remove(uid) == nil {
			t.Errorf("%q is the name of a file", uid)
		}
	}
	none := Folder{}
	if none.Write(spec, "a") == nil || none.Remove("a") == nil || second(none.List()) == nil || none.Clean() == nil {
		t.Error("there is no folder, and no error")
	}
	file := filepath.Join(f.Dirs[0], "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	odd := Folder{Dirs: []string{file}}
	if odd.Write(spec, "a") == nil || second(odd.List()) == nil {
		t.Error("a file is a folder")
	}
}

// A claim that has no file can be unprepared, also if nobody can write the folder.
func TestRemoveNothing(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/proc", "/sys", "/no/such/folder"} {
		if err := (Folder{Dirs: []string{dir}}).Remove("0d9f7e4c"); err != nil {
			t.Error(err)
		}
	}
}
