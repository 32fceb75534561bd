package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// TestJournalsOfEarlierReleases reads journals with entries of versions 1 and 2:
// the same history, once as a whole and once half compacted. The bytes of every
// entry come back, and both make the same book.
func TestJournalsOfEarlierReleases(t *testing.T) {
	const golden = "../stored/testdata"
	wantBook := readText(t, golden, "book")
	for _, name := range []string{"whole", "compacted"} {
		t.Run(name, func(t *testing.T) {
			var records strings.Builder
			book := lease.New()
			_, err := filelog.Read(file.PrivateDir(filepath.Join(golden, name)), func(r journal.Entry) error {
				records.Write(r.Data)
				records.WriteByte('\n')
				_, err := book.Read(r.Data)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := records.String(), readText(t, golden, name+".records"); got != want {
				t.Errorf("its records are\n%s\nwant\n%s", got, want)
			}
			if got := dump(book); got != wantBook {
				t.Errorf("its book is\n%s\nwant\n%s", got, wantBook)
			}

			w := newWorld()
			w.real = file.PrivateDir(t.TempDir()) // the ledger writes into it
			copyJournal(t, filepath.Join(golden, name), w.real)
			l, err := Open(Options{Settings: w.settings, Processes: process.Proc(), Open: w.open})
			if err != nil {
				t.Fatal(err)
			}
			if got := standing(l.book); got != standing(book) {
				t.Errorf("the ledger reads\n%s\nwant\n%s", got, standing(book))
			}
			if want := book.Fence() + LostFences; l.book.Fence() != want { // another boot wrote it
				t.Errorf("fences have got to %d, want %d", l.book.Fence(), want)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func readText(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// copyJournal copies the files of a journal to a disk.
func copyJournal(t *testing.T, from string, to file.Folder) {
	t.Helper()
	files, err := file.PrivateDir(from).List()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := file.PrivateDir(from).ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := to.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
