package filelog_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// Two journals count together: the second never has a number that the first has not got.
// A copy that is made while both are written and compacted has neither a gap nor a number
// too many.
func TestACopyIsOfOneMoment(t *testing.T) {
	disks := []*disktest.Disk{disktest.New(), disktest.New()}
	var logs []*filelog.Log
	for _, d := range disks {
		l, _, _ := open(t, d)
		logs = append(logs, l)
	}
	stop := make(chan struct{})
	begun := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 1; ; n++ {
			entry, _ := json.Marshal(n)
			for _, l := range logs {
				if err := l.Append([][]byte{entry}, journal.Care{Durable: n%5 == 0}); err != nil {
					t.Error(err)
				}
				if n%40 == 0 {
					if err := l.Compact(uint64(n), slices.Values([][]byte{entry})); err != nil {
						t.Error(err)
					}
				}
			}
			if n == 100 {
				close(begun)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-begun
	for range 50 {
		copies := []*disktest.Disk{disktest.New(), disktest.New()}
		err := filelog.Copy(logs, func() error { return nil }, func(l *filelog.Log, name string, data []byte) error {
			copies[slices.Index(logs, l)].WriteFile(name, data)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var last [2]int
		for i, d := range copies {
			l, _, rec := open(t, d)
			if rec.Torn != nil {
				t.Fatalf("journal %d ends in the middle of an entry", i)
			}
			last[i] = int(rec.LastSeq)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if last[0] < 100 || last[0]-last[1] > 1 || last[0] < last[1] {
			t.Fatalf("the copies end with %d and %d", last[0], last[1])
		}
	}
	close(stop)
	writing.Wait()
}
