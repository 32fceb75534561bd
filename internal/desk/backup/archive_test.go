package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/desk/backup"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

var here = backup.Machine{ID: "m1", Boot: "b1"}

// stateOf returns a copy of a state folder of testdata.
func stateOf(t testing.TB, name string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "states", name))); err != nil {
		t.Fatal(err)
	}
	return folder
}

// archived returns an archive of a state folder.
func archived(t testing.TB, folder string, secrets bool) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := backup.Offline(&b, backup.Source{Folder: folder, Secrets: secrets, Version: "test", Machine: here, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// entry is an entry of an archive.
type entry struct {
	tar.Header
	data []byte
}

func unzip(t testing.TB, archive []byte) (all []entry) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{*h, data})
	}
}

func zipped(t testing.TB, all []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := zip.Write(plain(t, all)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// plain returns an archive that is not compressed.
func plain(t testing.TB, all []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range all {
		e.Size = int64(len(e.data))
		if e.Typeflag != tar.TypeReg {
			e.Size = 0
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if e.Size > 0 {
			if _, err := w.Write(e.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// change returns the archive with one of its JSON entries changed.
func change(t testing.TB, all []entry, name string, do func(map[string]any)) []entry {
	t.Helper()
	all = append([]entry(nil), all...)
	for i := range all {
		if all[i].Name != name {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(all[i].data, &object); err != nil {
			t.Fatal(err)
		}
		do(object)
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		all[i].data = text
		return all
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// add adds an entry to an archive, with its right sum.
func add(t testing.TB, all []entry, e entry) []entry {
	t.Helper()
	if e.Typeflag == 0 {
		e.Typeflag = tar.TypeReg
	}
	e.Mode = 0o600
	of := sha256.Sum256(e.data)
	all = change(t, all, "berth-sums.json", func(o map[string]any) {
		o["files"].(map[string]any)[e.Name] = map[string]any{"size": len(e.data), "sha256": hex.EncodeToString(of[:])}
	})
	last := len(all) - 1
	return append(append(append([]entry(nil), all[:last]...), e), all[last])
}

// tree returns every file below a folder with its text.
func tree(t testing.TB, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		all[name] = string(text)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all
}

// An archive that berth did not write, or that somebody changed, is refused with a reason,
// and leaves nothing.
func TestHostileArchives(t *testing.T) {
	good := archived(t, stateOf(t, "0.1.0"), true)
	all := unzip(t, good)
	file := func(name string) entry { return entry{tar.Header{Name: name}, []byte("{}")} }
	of := func(kind byte, name, to string) entry {
		return entry{tar.Header{Name: name, Typeflag: kind, Linkname: to}, nil}
	}
	first := all[1] // a file of a journal
	for _, c := range []struct {
		name, want string
		archive    []byte
	}{
		{"nothing", "not a whole backup", nil},
		{"no archive", "not a whole backup", []byte("PK\x03\x04 not a backup of berth")},
		{"cut", "not a whole backup", good[:len(good)/2]},
		{"cut by a byte", "not a whole backup", good[:len(good)-1]},
		{"without its end", "its end is missing", zipped(t, all[:len(all)-1])},
		{"without its beginning", "it begins with", zipped(t, all[1:])},
		{"an absolute path", "leads out", zipped(t, add(t, all, file("/etc/cron.d/x")))},
		{"a path outside", "leads out", zipped(t, add(t, all, file("../x")))},
		{"a path outside, hidden", "leads out", zipped(t, add(t, all, file("journal/../../x")))},
		{"a link", "is not a file", zipped(t, add(t, all, of(tar.TypeSymlink, "health.json", "/etc/shadow")))},
		{"a hard link", "is not a file", zipped(t, add(t, all, of(tar.TypeLink, "health.json", "tokens.json")))},
		{"a device", "is not a file", zipped(t, add(t, all, of(tar.TypeChar, "health.json", "")))},
		{"a pipe", "is not a file", zipped(t, add(t, all, of(tar.TypeFifo, "health.json", "")))},
		{"a folder", "is not a file", zipped(t, add(t, all, of(tar.TypeDir, "journal", "")))},
		{"an unknown file", "no state folder has", zipped(t, add(t, all, file("authorized_keys")))},
		{"what is never copied", "no state folder has", zipped(t, add(t, all, file("jobs/runs/1.0.1")))},
		{"a file twice", "twice", zipped(t, add(t, all, first))},
		{"an added file", "somebody added", zipped(t, append(append(append([]entry(nil), all[:1]...), entry{tar.Header{Name: "health.json", Typeflag: tar.TypeReg, Mode: 0o600}, []byte("{}")}), all[1:]...))},
		{"a removed file", "is missing", zipped(t, append(append([]entry(nil), all[:1]...), all[2:]...))},
		{"a changed file", "its sum is wrong", zipped(t, append([]entry{all[0], {first.Header, append([]byte("x"), first.data...)}}, all[2:]...))},
		{"a newer archive", "has format 2, and this berth reads up to 1", zipped(t, change(t, all, "berth-backup.json", func(o map[string]any) { o["format"] = 2 }))},
		{"a newer journal", "journal has format 99", zipped(t, change(t, all, "berth-backup.json", func(o map[string]any) { o["formats"].(map[string]any)["journal"] = 99 }))},
		{"a newer kind of file", `"orbits.json", which this berth does not know`, zipped(t, change(t, all, "berth-backup.json", func(o map[string]any) { o["formats"].(map[string]any)["orbits.json"] = 1 }))},
		{"no format", "it has no format", zipped(t, change(t, all, "berth-backup.json", func(o map[string]any) { delete(o, "format") }))},
		{"hidden secrets", "says that it has no secrets", zipped(t, change(t, all, "berth-backup.json", func(o map[string]any) { o["secrets"] = false }))},
		{"a damaged journal", "is damaged", zipped(t, damaged(t, all))},
	} {
		t.Run(c.name, func(t *testing.T) {
			around := t.TempDir()
			_, err := backup.Restore(bytes.NewReader(c.archive), backup.Options{Folder: filepath.Join(around, "state"), Machine: here, Now: time.Now()})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(around); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// damaged returns an archive with a flipped byte in the journal of leases, and right sums.
func damaged(t *testing.T, all []entry) []entry {
	for i, e := range all {
		if strings.HasPrefix(e.Name, inventory.Leases+"/log-") {
			e.data = bytes.Clone(e.data)
			e.data[60] ^= 1
			return add(t, append(append([]entry(nil), all[:i]...), all[i+1:]...), e)
		}
	}
	t.Fatal("there is no journal")
	return nil
}

// The files of an archive without secrets hold none of their bytes. With secrets, they do.
func TestSecrets(t *testing.T) {
	folder := stateOf(t, "0.1.0")
	// What stands in the folder of testdata where berth keeps secrets.
	secrets := []string{"job-secret-value", "service-secret-value", "hook-secret-value", "https://hooks.example/hook-address"}
	var tokens struct {
		Tokens []struct{ SHA256 string }
	}
	text, err := os.ReadFile(filepath.Join(folder, inventory.Tokens))
	if err != nil {
		t.Fatal(err)
	}
	if _, object, _ := bytes.Cut(text, []byte("\n")); json.Unmarshal(object, &tokens) != nil || len(tokens.Tokens) != 1 {
		t.Fatalf("%s", text)
	}
	secrets = append(secrets, tokens.Tokens[0].SHA256)
	for _, with := range []bool{false, true} {
		var whole bytes.Buffer
		for _, e := range unzip(t, archived(t, folder, with)) {
			i, _ := inventory.Find(e.Name)
			if !with && i.Care == inventory.Secret {
				t.Errorf("%s is in an archive without secrets", e.Name)
			}
			whole.Write(e.data)
		}
		for _, secret := range secrets {
			if bytes.Contains(whole.Bytes(), []byte(secret)) != with {
				t.Errorf("secrets %v: the archive has %q: %v", with, secret, !with)
			}
		}
		if !bytes.Contains(whole.Bytes(), []byte("temp_optimal: 61")) {
			t.Errorf("secrets %v: the settings made at run time are missing", with)
		}
	}
}

// The row of a file in the table of the state folder says whether an archive has it.
func TestTheTableSaysWhatIsCopied(t *testing.T) {
	folder := t.TempDir()
	names := map[string]inventory.Item{}
	block := "past/long/" + strings.Repeat("0A", 13)
	for _, i := range inventory.Items() {
		file := map[inventory.Kind]string{
			inventory.State: "", inventory.Journal: "/log-00000000000000000001", inventory.Folder: "/1-" + strings.Repeat("0f", 32),
			inventory.Past: "/recent/wal/00000000", inventory.Runs: "/1.0.1", inventory.Local: "/x",
		}[i.Kind]
		if i.Kind == inventory.Lines {
			file = map[string]string{inventory.Audit: "/audit.log", inventory.Events: "/events-000001.jsonl"}[i.Path]
		}
		names[i.Path+file] = i
		if i.Kind == inventory.Past {
			names[block+"/meta.json"] = i
		}
	}
	for name := range names {
		path, text := filepath.Join(folder, name), "{}\n"
		if name == inventory.ServiceFile {
			text = `{"version":1}`
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []backup.Source{{}, {Secrets: true}, {NoPast: true}} {
		s.Folder, s.Version, s.Now = folder, "test", time.Now()
		var b bytes.Buffer
		if err := backup.Offline(&b, s); err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, e := range unzip(t, b.Bytes()) {
			has[e.Name] = true
		}
		for name, i := range names {
			want := i.Care != inventory.Left && (i.Care != inventory.Secret || s.Secrets) && (i.Kind != inventory.Past || !s.NoPast)
			if has[name] != want {
				t.Errorf("secrets %v, no past %v: the archive has %s: %v", s.Secrets, s.NoPast, name, has[name])
			}
		}
	}
}
