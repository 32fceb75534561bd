package filelog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
)

// Reading needs no lock, sees what was appended, and leaves even a torn end as
// it is.
func TestReadChangesNothing(t *testing.T) {
	dir := t.TempDir()
	keep := func(journal.Entry) error { return nil }
	log, _, err := filelog.Open(file.PrivateDir(dir), filelog.Options{}, keep)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.Append([][]byte{[]byte("one"), []byte("two")}, journal.Care{Durable: true}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "log-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	torn, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndexFunc(torn, func(r rune) bool { return r != 0 }) + 64
	torn[at] = 1 // the beginning of an entry that was never finished
	if err := os.WriteFile(files[0], torn, 0o600); err != nil {
		t.Fatal(err)
	}

	var got []string
	rec, err := filelog.Read(file.PrivateDir(dir), func(r journal.Entry) error {
		got = append(got, string(r.Data))
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"one", "two"}) || rec.LogEntries != 2 || rec.LastSeq != 2 || rec.Torn == nil {
		t.Errorf("read %q, %+v, %v", got, rec, err)
	}
	if after, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(after, torn) {
		t.Errorf("the file was changed, %v", err)
	}
}
