package filelog_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// counter counts in a journal: entry n says n, and so does a snapshot of
// everything up to n.
type counter struct{ n uint64 }

func (c *counter) replay(r journal.Entry) error {
	c.n++
	if r.Snapshot {
		c.n = r.Seq
	}
	if string(r.Data) != strconv.FormatUint(c.n, 10) || r.Seq != c.n {
		return fmt.Errorf("entry %d says %s after %d", r.Seq, r.Data, c.n-1)
	}
	return nil
}

func (c *counter) next() []byte {
	c.n++
	return strconv.AppendUint(nil, c.n, 10)
}

func (c *counter) snapshot() iter.Seq[[]byte] {
	return slices.Values([][]byte{strconv.AppendUint(nil, c.n, 10)})
}

func TestDirIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "as", "needed")
	l, _, _ := open(t, file.PrivateDir(path))
	_, _, _, err := tryOpen(file.PrivateDir(path))
	var locked *file.LockedError
	if !errors.As(err, &locked) || locked.Dir != path || locked.PID != os.Getpid() {
		t.Fatalf("a second one: %v", err)
	}
	if _, err := filelog.Salvage(file.PrivateDir(path), anything, nil); !errors.As(err, &locked) {
		t.Fatalf("salvage: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, _, _ = open(t, file.PrivateDir(path))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDirThatCannotBeUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := tryOpen(file.PrivateDir(path)); err == nil {
		t.Fatal("a file was taken for a directory")
	}
}

// The writer goes on while another goroutine compacts, and nothing is lost.
func TestCompactionBesideAppends(t *testing.T) {
	dir := file.PrivateDir(t.TempDir())
	var c counter
	l, _, err := filelog.Open(dir, small, c.replay)
	if err != nil {
		t.Fatal(err)
	}
	var compactions sync.WaitGroup
	for i := range 600 {
		if err := l.Append([][]byte{c.next(), c.next()}, journal.Care{Durable: i%50 == 0}); err != nil {
			t.Fatal(err)
		}
		if i%60 == 59 {
			compactions.Wait()
			upTo, snapshot := c.n, c.snapshot()
			compactions.Go(func() {
				if err := l.Compact(upTo, snapshot); err != nil {
					t.Error(err)
				}
			})
		}
	}
	compactions.Wait()
	if s := l.Stats(); s.SnapshotSeq != 1200 || s.LogEntries != 0 || s.Segments != 1 {
		t.Fatalf("stats: %+v", s)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var again counter
	l, _, err = filelog.Open(dir, small, again.replay)
	if err != nil || again.n != c.n {
		t.Fatalf("%d came back of %d: %v", again.n, c.n, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	l, _, err := filelog.Open(file.PrivateDir(t.TempDir()), filelog.Options{}, func(journal.Entry) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	group := [][]byte{make([]byte, 250), make([]byte, 250)}
	for _, care := range []journal.Care{{Durable: true}, {}} {
		if n := testing.AllocsPerRun(200, func() {
			if err := l.Append(group, care); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%+v: %v allocations", care, n)
		}
	}
}

// hangingDisk hangs in the sync of its files once it is told to.
type hangingDisk struct {
	*disktest.Disk
	hang    *atomic.Bool
	entered chan struct{}
	release chan struct{}
}

type hangingFile struct {
	file.File
	disk hangingDisk
}

func (d hangingDisk) Create(name string) (file.File, error) {
	f, err := d.Disk.Create(name)
	return hangingFile{f, d}, err
}

func (f hangingFile) Sync() error {
	if f.disk.hang.Load() {
		f.disk.entered <- struct{}{}
		<-f.disk.release
	}
	return f.File.Sync()
}

func TestStatsWhileTheDiskHangs(t *testing.T) {
	d := hangingDisk{disktest.New(), new(atomic.Bool), make(chan struct{}), make(chan struct{})}
	l, _, _ := open(t, d)
	add(t, l, durably, "one")
	d.hang.Store(true)
	done := make(chan error)
	go func() { done <- l.Append([][]byte{{2}}, journal.Care{Durable: true}) }()
	<-d.entered
	if s := l.Stats(); s.LastSeq != 1 {
		t.Fatalf("not acknowledged yet, and %+v", s)
	}
	close(d.release)
	if err := <-done; err != nil || l.Stats().LastSeq != 2 {
		t.Fatalf("%v, %+v", err, l.Stats())
	}
}
