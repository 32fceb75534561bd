package filelog_test

import (
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/file/journal/journaltest"
)

// small makes short histories reach everything.
var small = filelog.Options{Segment: 700, Reserve: 200, Step: 256, Unsynced: 400}

// world is a log on a disk that can crash.
type world struct{ *disktest.Disk }

func (w world) Open(replay func(journal.Entry) error) (journal.Journal, journal.Recovery, error) {
	l, rec, err := filelog.Open(w.Disk, small, replay)
	if err != nil {
		return nil, rec, err
	}
	return l, rec, nil
}

func (w world) PowerCut(chance func(int) int) { w.Disk.PowerCut(chance) }

func (w world) FailAt(op int, f journaltest.Fault) {
	w.Disk.FailAt(op, disktest.Fault{Err: f.Err, Partial: f.Partial, Revert: f.Revert, Stay: f.Stay})
}

func (w world) Bytes() (n int) {
	names, _ := w.List()
	for _, name := range names {
		data, _ := w.ReadFile(name)
		n += len(data)
	}
	return n
}

func (w world) Flip(i int, mask byte) {
	names, _ := w.List()
	for _, name := range names {
		data, _ := w.ReadFile(name)
		if i < len(data) {
			data[i] ^= mask
			w.WriteFile(name, data)
			return
		}
		i -= len(data)
	}
}

func TestJournal(t *testing.T) {
	journaltest.Run(t, func() journaltest.World { return world{disktest.New()} })
}
