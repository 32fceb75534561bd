package doctor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// A machine has given out a million fences. Most of its leases have ended; its journal was
// compacted, and has gone on since.
const given = 1_000_003

// machine returns the files of its journal.
func machine(t *testing.T) map[string][]byte {
	t.Helper()
	disk := disktest.New()
	log, _, err := filelog.Open(disk, filelog.Options{Step: 1 << 10}, func(journal.Entry) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	grant := func(fence uint64) []byte {
		l := &lease.Lease{ID: fmt.Sprint("a", fence), Fence: fence, Binding: lease.ByName, State: lease.Active, Granted: now, Parts: []lease.Part{{GPU: "G", Memory: 1}}}
		for r := range lease.EntriesOf([]*lease.Lease{l}) {
			return lease.AppendEntry(nil, &r)
		}
		return nil
	}
	add := func(entry []byte) {
		if err := log.Append([][]byte{entry}, journal.Care{Durable: true}); err != nil {
			t.Fatal(err)
		}
	}
	add(grant(1))
	mark := stored.NewFence(1_000_001, "boot")
	err = log.Compact(1, func(yield func([]byte) bool) {
		text := lease.AppendEntry(nil, &mark)
		_ = yield(grant(1)) && yield(text) && yield(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	add(grant(1_000_002))
	ended := stored.Entry{Version: 1, Kind: stored.Release, ID: "a1000002", Fence: 1_000_002, Time: now.UnixNano()}
	add(lease.AppendEntry(nil, &ended))
	add(grant(given))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files := contents(t, disk)
	for name, data := range files { // most of a log is room for more
		files[name] = data[:min(len(data), 4<<10)]
	}
	return files
}

func contents(t *testing.T, disk file.Folder) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	names, err := disk.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if all[name], err = disk.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func diskOf(files map[string][]byte) *disktest.Disk {
	disk := disktest.New()
	for name, data := range files {
		disk.WriteFile(name, data)
	}
	return disk
}

// next returns the fence that the next daemon gives out, and whether it starts.
func next(t *testing.T, disk file.Folder) (fence uint64, starts bool) {
	t.Helper()
	book, boot, torn := lease.New(), "", false
	log, rec, err := filelog.Open(disk, filelog.Options{Step: 1 << 10}, func(e journal.Entry) error {
		read, err := book.Read(e.Data)
		if err != nil {
			return fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		if read.Kind == stored.Fence {
			boot = read.Why
		}
		return nil
	})
	if err != nil {
		return 0, false
	}
	torn = rec.Torn != nil
	if log.Stats().Torn != torn {
		t.Errorf("the log says that it was torn: %v", !torn)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	fence = book.Fence() + 1
	if boot != "boot" || torn {
		fence += ledger.LostFences
	}
	return fence, true
}

// Whatever byte of a journal is damaged, and whenever a repair of it is interrupted, the
// next fence is larger than all before.
func TestFencesGrowThroughDamageAndRepair(t *testing.T) {
	files := machine(t)
	if len(files) < 2 {
		t.Fatalf("the journal is %d files", len(files))
	}
	check := func(what string, disk file.Folder) bool {
		fence, starts := next(t, disk)
		if starts && fence <= given {
			t.Errorf("%s: the next fence is %d", what, fence)
		}
		return starts
	}
	interrupted := 0
	for name, data := range files {
		for at := range data {
			if at > 1<<10 && at%251 != 0 { // nothing is written there yet
				continue
			}
			damaged := map[string][]byte{}
			for other, data := range files {
				damaged[other] = append([]byte(nil), data...)
			}
			damaged[name][at] ^= 1 << (at % 8)
			what := fmt.Sprintf("byte %d of %s", at, name)
			if check(what, diskOf(damaged)) {
				continue
			}
			disk := diskOf(damaged)
			before := disk.Ops()
			if did, err := repairIn(disk, "folder"); err != nil || did.Damage == "" {
				t.Fatalf("%s: repaired as %+v, %v", what, did, err)
			}
			steps := disk.Ops() - before
			if !check(what+", repaired", disk) {
				t.Fatalf("%s: no daemon starts after the repair", what)
			}
			if at%37 != 0 {
				continue
			}
			for step := range steps {
				disk := diskOf(damaged)
				disk.CrashAt(disk.Ops()+step, 0)
				if _, err := repairIn(disk, "folder"); err == nil {
					continue // it was over
				}
				interrupted++
				disk.Kill()
				what := fmt.Sprintf("%s, interrupted at step %d of the repair", what, step)
				if check(what, diskOf(contents(t, disk))) {
					continue
				}
				if _, err := repairIn(disk, "folder"); err != nil {
					t.Fatalf("%s: repaired again: %v", what, err)
				}
				if !check(what+", repaired again", disk) {
					t.Fatalf("%s: no daemon starts", what)
				}
			}
		}
	}
	if interrupted < 50 {
		t.Errorf("only %d repairs were interrupted", interrupted)
	}
}

// Nobody's fence was damaged where a repair has no number to go by but those it kept.
func TestFencesIn(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                                  0,
		`{"fence":7}{"fence":12,"x":1}`:     12,
		`{"parent_fence":70,"fence":7}`:     7,
		`{"fence":18446744073709551616}`:    0,
		`{"fence":9999999999999999999}`:     0,
		"\x00\xff\"fence\":41\x00\"fence\"": 41,
	} {
		if got, err := FencesIn(diskOf(map[string][]byte{"log": []byte(text)})); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	if _, err := repairIn(diskOf(nil), "folder"); errors.Is(err, journal.ErrClosed) {
		t.Error(err)
	}
}
