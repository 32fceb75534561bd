package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhoCanChangeAFile(t *testing.T) {
	const file, folder = unix.S_IFREG, unix.S_IFDIR
	type attributes struct {
		uid, gid, mode uint32
	}
	for _, c := range []struct {
		name string
		self uint32
		has  attributes
		want string // in the error
		warn string
	}{
		{"root's file", 0, attributes{0, 0, file | 0o644}, "", ""},
		{"a file of root's group", 0, attributes{0, 0, file | 0o664}, "", ""},
		{"a file of a group", 0, attributes{0, 27, file | 0o660}, "group 27 can write", ""},
		{"everybody's file", 0, attributes{0, 0, file | 0o666}, "every user can write", ""},
		{"a file with the sticky bit", 0, attributes{0, 0, file | 0o1666}, "every user can write", ""},
		{"a user's file", 0, attributes{65534, 0, file | 0o600}, "belongs to user 65534: run chown -h root /etc/it", ""},
		{"a user's folder", 0, attributes{65534, 0, folder | 0o700}, "belongs to user 65534", ""},
		{"a user's sticky folder", 0, attributes{65534, 0, folder | 0o1777}, "belongs to user 65534", ""},
		{"everybody's folder", 0, attributes{0, 0, folder | 0o777}, "every user can write", ""},
		{"a folder such as /tmp", 0, attributes{0, 0, folder | 0o1777}, "", ""},
		{"a group's folder", 0, attributes{0, 27, folder | 0o2775}, "group 27 can write", ""},
		{"for a user: root's file", 1000, attributes{0, 0, file | 0o644}, "", ""},
		{"for a user: their own file", 1000, attributes{1000, 1000, file | 0o644}, "", ""},
		{"for a user: a file of their group", 1000, attributes{1000, 1000, file | 0o664}, "", "group 1000 can write"},
		{"for a user: a folder of their group", 1000, attributes{1000, 1000, folder | 0o775}, "", "group 1000 can write"},
		{"for a user: everybody's file", 1000, attributes{1000, 1000, file | 0o666}, "every user can write", ""},
		{"for a user: everybody's folder", 1000, attributes{0, 0, folder | 0o777}, "every user can write", ""},
		{"for a user: another user's file", 1000, attributes{1001, 1000, file | 0o600}, "belongs to user 1001: use one that belongs to you or to root", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			warned := ""
			r := reader{uid: c.self, warn: func(about string) { warned += about }}
			err := r.check("/etc/it", &unix.Stat_t{Uid: c.has.uid, Gid: c.has.gid, Mode: c.has.mode})
			if (err != nil) != (c.want != "") || err != nil && (!errors.Is(err, ErrOthers) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if (warned != "") != (c.warn != "") || !strings.Contains(warned, c.warn) {
				t.Errorf("warned %q, want %q", warned, c.warn)
			}
		})
	}
}

// put makes a file with a mode in a new folder.
func put(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth.yaml")
	must(t, os.WriteFile(path, []byte("text"), 0o600))
	must(t, os.Chmod(path, mode))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkRead reads a file, and compares the error with what it should say; empty:
// none.
func checkRead(t *testing.T, path, want string) {
	t.Helper()
	f, err := ReadTrusted(path, nil)
	switch {
	case want == "" && (err != nil || string(f.Text) != "text"):
		t.Errorf("read %s: %v", path, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("read %s: %v, want %q", path, err, want)
	}
}

func TestFilesAndFolders(t *testing.T) {
	path := put(t, 0o644)
	checkRead(t, path, "")
	t.Chdir(filepath.Dir(path))
	checkRead(t, "berth.yaml", "")
	checkRead(t, "./../"+filepath.Base(filepath.Dir(path))+"//berth.yaml", "")
	checkRead(t, put(t, 0o666), "chmod go-w ")

	must(t, os.Chmod(".", 0o777))
	checkRead(t, "berth.yaml", "run chmod go-w .")
	checkRead(t, path, "run chmod go-w "+filepath.Dir(path)+",")
	must(t, os.Chmod(".", 0o777|fs.ModeSticky))
	checkRead(t, path, "")
}

func TestWhatIsNoFile(t *testing.T) {
	path := put(t, 0o600)
	dir := filepath.Dir(path)
	pipe, circle := filepath.Join(dir, "pipe"), filepath.Join(dir, "circle")
	must(t, syscall.Mkfifo(pipe, 0o600))
	must(t, os.Symlink("circle", circle))
	checkRead(t, dir, "it is not a regular file")
	checkRead(t, pipe, "it is not a regular file")
	checkRead(t, circle, "too many levels of symbolic links")
	checkRead(t, path+"/more", "not a directory")
	checkRead(t, path+"/", "not a directory")
	checkRead(t, "", "not a regular file")
	if _, err := ReadTrusted(filepath.Join(dir, "absent"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}

// The folder of a ConfigMap in a pod is open to everybody, and its files are links
// to a folder that is not.
func TestLinks(t *testing.T) {
	path := put(t, 0o644)
	volume := t.TempDir()
	must(t, os.Mkdir(filepath.Join(volume, "..1"), 0o755))
	must(t, os.Rename(path, filepath.Join(volume, "..1", "berth.yaml")))
	must(t, os.Symlink("..1", filepath.Join(volume, "..data")))
	must(t, os.Symlink("..data/berth.yaml", filepath.Join(volume, "berth.yaml")))
	must(t, os.Chmod(volume, 0o777))
	link := filepath.Join(filepath.Dir(path), "link")
	must(t, os.Symlink(filepath.Join(volume, "berth.yaml"), link))
	checkRead(t, link, "")
	must(t, os.Chmod(filepath.Dir(link), 0o777))
	checkRead(t, link, "run chmod go-w "+filepath.Dir(link)+",")
	must(t, os.Chmod(filepath.Dir(link), 0o777|fs.ModeSticky))
	checkRead(t, link, "")

	must(t, os.Chmod(filepath.Join(volume, "..1"), 0o777))
	checkRead(t, link, "run chmod go-w "+filepath.Join(volume, "..1"))
	must(t, os.Chmod(filepath.Join(volume, "..1"), 0o755))
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	must(t, os.Lchown(filepath.Join(volume, "..data"), 65534, 65534))
	checkRead(t, link, filepath.Join(volume, "..data")+": others can change it: it belongs to user 65534")
	must(t, os.Lchown(filepath.Join(volume, "..data"), 0, 0))
	must(t, os.Chown(volume, 65534, 65534))
	checkRead(t, link, volume+": others can change it: it belongs to user 65534")
}

func TestSecrets(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{0o600: "", 0o640: "", 0o644: "chmod 600 ", 0o620: "chmod ", 0o604: "its mode is 0604"} {
		_, err := ReadSecret(put(t, mode), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with mode %o: %v, want %q", mode, err, want)
		}
	}
}
