package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// made packs the repository with two programs of this machine.
func made(t *testing.T) map[string][]byte {
	t.Helper()
	programs, extra := t.TempDir(), t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{
		filepath.Join(programs, "berth"):               shell,
		filepath.Join(programs, "berth-serve"):         shell,
		filepath.Join(extra, "licences.txt"):           []byte("licences"),
		filepath.Join(extra, "man/berth.1"):            []byte(".TH BERTH 1"),
		filepath.Join(extra, "completions/berth.bash"): []byte("complete"),
		filepath.Join(extra, "completions/_berth"):     []byte("complete"),
		filepath.Join(extra, "completions/berth.fish"): []byte("complete"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{repository: "../..", version: "1.2.3-dev+0abc", packaged: "1.2.3~dev+0abc", arch: "amd64", maintainer: "Ada <ada@ada.dev>", programs: programs, extra: extra, out: t.TempDir(), created: time.Unix(1e9, 0).UTC()}
	written, err := o.run()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, path := range written {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	first, again := made(t), made(t)
	for _, name := range []string{"berth-1.2.3-dev+0abc-linux-amd64.tar.gz", "berth_1.2.3~dev+0abc_amd64.deb", "berth-1.2.3~dev+0abc-1.x86_64.rpm"} {
		if len(first[name]) == 0 || !bytes.Equal(first[name], again[name]) {
			t.Errorf("%s: %d and %d bytes, and not the same", name, len(first[name]), len(again[name]))
		}
	}
	if len(first) != 3 {
		t.Errorf("%d files", len(first))
	}
}

func TestArchive(t *testing.T) {
	unzipped, err := gzip.NewReader(bytes.NewReader(made(t)["berth-1.2.3-dev+0abc-linux-amd64.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	modes, r := map[string]int64{}, tar.NewReader(unzipped)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name, found := strings.CutPrefix(h.Name, "berth-1.2.3-dev+0abc-linux-amd64/")
		if !found || h.Uid != 0 || !h.ModTime.Equal(time.Unix(1e9, 0)) {
			t.Errorf("%s of %d at %v", h.Name, h.Uid, h.ModTime)
		}
		modes[name] = h.Mode
	}
	for name, mode := range map[string]int64{"bin/berth": 0o755, "bin/berth-serve": 0o755, "berth.yaml": 0o600, "systemd/berth.service": 0o644, "LICENSE": 0o644, "man/man1/berth.1": 0o644, "docs/start/install.md": 0o644} {
		if modes[name] != mode {
			t.Errorf("%s has mode %o, want %o", name, modes[name], mode)
		}
	}
}

func TestDebianPackage(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("there is no dpkg-deb")
	}
	deb := filepath.Join(t.TempDir(), "berth.deb")
	if err := os.WriteFile(deb, made(t)["berth_1.2.3~dev+0abc_amd64.deb"], 0o644); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-R", deb, into).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{
		"DEBIAN/conffiles":                   "/etc/berth/berth.yaml\n",
		"DEBIAN/control":                     "\nMaintainer: Ada <ada@ada.dev>\n",
		"DEBIAN/preinst":                     "\nknows=",
		"lib/systemd/system/berth.service":   "\nExecStart=/usr/bin/berth serve ",
		"usr/share/doc/berth/copyright":      "Apache-2.0",
		"usr/lib/sysusers.d/berth.conf":      "u berth-front",
		"usr/share/doc/berth/docs/README.md": "",
	} {
		text, err := os.ReadFile(filepath.Join(into, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %q", name, err, want)
		}
		if strings.Contains(string(text), "@ENTRIES@") || strings.Contains(string(text), "=/usr/local/bin") {
			t.Errorf("%s has a place that nothing was put into", name)
		}
	}
}

// A package that cannot read the journal is refused before anything changes, wherever the
// configuration puts the state, by apt and by rpm.
func TestAnOlderPackageIsRefused(t *testing.T) {
	text, err := os.ReadFile("deb/preinst")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config, journal, args string
		refused               bool
	}{
		"nothing is there":               {"", "", "install", false},
		"a journal of the same version":  {"", `var/lib/berth {"v":7}`, "upgrade", false},
		"a newer journal":                {"", `var/lib/berth {"v":8}`, "upgrade", true},
		"the way back of apt":            {"", `var/lib/berth {"v":8}`, "abort-upgrade", false},
		"a newer journal, of the rpm":    {"", `var/lib/berth {"v":8}`, "2", true},
		"a newer journal elsewhere":      {"daemon:\n  state_dir: \"ROOT/srv\" # big\n", `srv {"v":8}`, "2", true},
		"an older state where it is not": {"daemon:\n  state_dir: ROOT/srv\n", `var/lib/berth {"v":8}`, "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			script := strings.NewReplacer("@ENTRIES@", "7", "/var/lib/berth", root+"/var/lib/berth", "/etc/berth", root).Replace(string(text))
			if test.config != "" {
				if err := os.WriteFile(root+"/berth.yaml", []byte(strings.ReplaceAll(test.config, "ROOT", root)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if state, entry, is := strings.Cut(test.journal, " "); is {
				folder := filepath.Join(root, state, "journal")
				if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(folder+"/1", []byte(entry), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("sh", "-c", script, "preinst", test.args).CombinedOutput()
			if refused := err != nil; refused != test.refused {
				t.Errorf("refused: %t: %v\n%s", refused, err, out)
			}
		})
	}
	if rpm := made(t)["berth-1.2.3~dev+0abc-1.x86_64.rpm"]; !bytes.Contains(rpm, []byte("this package is older than the one that is installed")) {
		t.Error("the rpm does not look at the journal")
	}
}

// Both packages name whoever answers for them.
func TestMaintainer(t *testing.T) {
	for who, fine := range map[string]bool{
		nobody: true, "Ada Lovelace <ada@ada.dev>": true, "": false, "Ada": false, "ada@ada.dev": false, "<ada@ada.dev>": false, "Ada <ada>": false,
		"Ada <ada@ada.dev>\nVersion: 9": false, "Ada <ada@ada.dev>, Eve <eve@ada.dev>": false,
	} {
		if err := checkMaintainer(who); (err == nil) != fine {
			t.Errorf("%q: %v", who, err)
		}
	}
	if _, err := new(options).run(); err == nil || !strings.Contains(err.Error(), "maintainer") {
		t.Errorf("a package of nobody: %v", err)
	}
	if rpm := made(t)["berth-1.2.3~dev+0abc-1.x86_64.rpm"]; !bytes.Contains(rpm, []byte("Ada <ada@ada.dev>")) {
		t.Error("the rpm does not name its packager")
	}
}

func TestNotes(t *testing.T) {
	const log = "# Changes\n\n## Unreleased\n\n- new\n\n## 0.2.0\n\n- two\n\n## 0.1.0\n\n- one\n"
	for version, want := range map[string]string{"0.2.0": "- two\n", "0.1.0": "- one\n", "0.3.0": "- new\n"} {
		cmd := exec.Command("./notes.sh", version)
		cmd.Stdin = strings.NewReader(log)
		if got, err := cmd.Output(); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	cmd := exec.Command("./notes.sh", "0.1.0")
	cmd.Stdin = strings.NewReader("## 0.1.0\n\n## 0.0.9\n- x\n")
	if got, err := cmd.Output(); err == nil {
		t.Errorf("nothing to say: %q", got)
	}
}
