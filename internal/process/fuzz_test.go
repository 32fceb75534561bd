package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const statSeed = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1 2 18446744073709551615\n"

// Whatever a stat line holds, a name in it cannot pass for one of its fields.
func FuzzParseStat(f *testing.F) {
	for _, seed := range []string{statSeed, "", ")", "1 (x) ", "1 (x) R 9999999999999999999999 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 -1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseStat(text)
		if err != nil {
			return
		}
		// Another name changes nothing.
		begin, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		if begin < 0 || begin > end {
			return
		}
		other := string(text[:begin+1]) + ") Z 1 (" + string(text[end:])
		if again, err := parseStat([]byte(other)); err != nil || again != s {
			t.Errorf("%q is %+v, and with another name %+v, %v", text, s, again, err)
		}
	})
}

// Whatever the files of a process say, reading them ends with facts that can be
// shown and compared. The process chooses most of them itself.
func FuzzFacts(f *testing.F) {
	f.Add([]byte("Name:\tx\nState:\tS (sleeping)\nUid:\t1\t2\t3\t4\nNSpid:\t7\t1\n"), []byte("BERTH_LEASE=a\x00BERTH_FENCE=7\x00"), []byte("0::/user.slice/a.scope\n1:cpu:/\n"), []byte("python3\x00train.py\x00"), []byte("python3\n"))
	f.Add([]byte("Uid:\n"), []byte("BERTH_FENCE=-1\x00=\x00BERTH_LEASE="), []byte("::\n:::\x00\n0::no"), []byte{0}, []byte("\x1b[31m\xff\n"))
	f.Add([]byte("Uid:\t1\t99999999999999999999"), []byte{}, []byte{}, []byte{}, []byte{})
	table := Table{root: f.TempDir()}
	folder := filepath.Join(table.root, "7")
	if err := os.MkdirAll(filepath.Join(folder, "ns"), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("pid:[1]", filepath.Join(folder, "ns/pid")); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "stat"), []byte(statSeed), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status, environ, cgroup, cmdline, comm []byte) {
		for name, text := range map[string][]byte{"status": status, "environ": environ, "cgroup": cgroup, "cmdline": cmdline, "comm": comm} {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		id, err := table.Identify(7)
		if err != nil || id.Start != 12345 {
			t.Fatalf("it is %+v, %v", id, err)
		}
		facts := table.Facts(id)
		for _, path := range facts.Cgroups {
			if !strings.HasPrefix(path, "/") || path == "/" || strings.Contains(path, "\n") {
				t.Errorf("it is in the control group %q", path)
			}
		}
		for _, program := range facts.Programs {
			if program == "" || strings.Contains(program, "/") {
				t.Errorf("it goes by the name %q", program)
			}
		}
		if uid, err := table.UID(7); err == nil && uid < 0 {
			t.Errorf("it runs as user %d", uid)
		}
		if name := table.Name(7); !utf8.ValidString(name) || strings.ContainsAny(name, "\x1b\n\x00") {
			t.Errorf("its name %q cannot be shown", name)
		}
		if words := table.Said(id).Command(); strings.Contains(strings.Join(words, ""), "\x00") {
			t.Errorf("its command is %q", words)
		}
		if pid, err := table.InNamespace("pid:[1]", 1); err == nil && pid != 7 {
			t.Errorf("process 1 of its namespace is %d", pid)
		}
	})
}
