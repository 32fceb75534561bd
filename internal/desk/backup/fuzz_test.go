package backup_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/desk/backup"
)

// Whatever is in an archive, a restoration makes a whole state folder, or leaves nothing;
// and nothing is ever outside of the folder.
func FuzzRestore(f *testing.F) {
	all := unzip(f, archived(f, stateOf(f, "0.1.0"), true))
	small := change(f, []entry{all[0], all[len(all)-1]}, "berth-sums.json", func(o map[string]any) { o["files"] = map[string]any{} })
	for _, e := range all {
		if strings.HasPrefix(e.Name, "journal/") || e.Name == "numbers.json" {
			small = add(f, small, e)
		}
	}
	f.Add(plain(f, small))
	f.Add(plain(f, all[:1]))
	f.Fuzz(func(t *testing.T, tar []byte) {
		var b bytes.Buffer
		zip := gzip.NewWriter(&b)
		if _, err := zip.Write(tar); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
		around := t.TempDir()
		_, err := backup.Restore(&b, backup.Options{Folder: filepath.Join(around, "state"), Machine: here, Now: time.Now()})
		left, _ := os.ReadDir(around)
		if names := len(left); err != nil && names > 0 || err == nil && (names != 1 || left[0].Name() != "state") {
			t.Errorf("%v, and there is %v", err, left)
		}
	})
}

// Whatever is in a file of the past, it is sound or not.
func FuzzPast(f *testing.F) {
	for _, name := range []string{"index", "chunks/000001", "wal/00000000", "tombstones", "meta.json"} {
		f.Add(name, []byte("\xba\xaa\xd7\x00\x02"))
	}
	f.Fuzz(func(_ *testing.T, name string, data []byte) { _ = backup.CheckPast("past/recent/x/"+name, data) })
}
