package mover

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// observer is a simulated process that notes whether mu is free when its control groups are
// asked for.
type observer struct {
	p           *Mover
	asked, held int
}

func (*observer) Started(int) (uint64, bool) { return 1, true }
func (*observer) End(int)                    {}

func (o *observer) Facts(int) (kinship.Facts, bool) {
	o.asked++
	if o.p.mu.TryLock() {
		o.p.mu.Unlock()
	} else {
		o.held++
	}
	return kinship.Facts{Cgroups: []string{"/"}}, true
}

// A lease may have any number of processes. The files of each are read without mu, which
// the ledger waits for.
func TestReadsProcessesWithoutTheLock(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte("MemTotal: 99999999 kB\nMemAvailable: 99999999 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	p := &Mover{settings: &settings}
	o := &observer{p: p}
	p.Machine = Machine{Root: root, Processes: process.Proc().With(o)}
	r, list := newRecord(kept{}), []moved{{Process: move.Process{PID: 1 << 30, Start: 1}}}
	if err := p.enter(r, &order{source: move.ByHand}, false, list); err != nil {
		t.Fatal(err)
	}
	grown := []moved{{Process: list[0].Process, Memory: 5}, {Process: move.Process{PID: 1<<30 + 1, Start: 1}}}
	if news, err := p.addMembers(r, grown); !news || err != nil {
		t.Errorf("%v, %v", news, err)
	}
	if o.asked != 2 || o.held != 0 {
		t.Errorf("of %d times, mu was held %d times", o.asked, o.held)
	}
	if len(r.Processes) != 2 || memory(r.Processes) != 5 {
		t.Errorf("the processes are %v", r.Processes)
	}
}
