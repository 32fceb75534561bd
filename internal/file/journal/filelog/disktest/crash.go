package disktest

import (
	"maps"
	"slices"
)

// Chance picks a number from 0 to n-1. It decides what a crash keeps.
type Chance func(n int) int

// Always returns a Chance that always picks the same: Always(0) loses everything that was
// not synced, Always(1) keeps everything.
func Always(pick int) Chance { return func(n int) int { return min(pick, n-1) } }

// Fault is an operation that fails.
type Fault struct {
	Err error
	// Partial is the number of bytes of a write that succeed anyway.
	Partial int
	// Keep decides what a failed sync has brought to the disk; nil means nothing.
	Keep Chance
	// Revert means that after a failed sync, reads return what is on disk and
	// not what was written. Some file systems do this, others do not.
	Revert bool
	// Stay means that the operations after it fail too, until Mend.
	Stay bool
}

// Ops returns the number of operations so far. Everything that changes the disk is an
// operation.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// FailAt makes one operation fail. Operations count from 0, as in Ops.
func (d *Disk) FailAt(op int, f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[op] = f
}

// CrashAt stops everything at one operation. If that is a write, it writes partial bytes
// first. Kill or PowerCut must follow.
func (d *Disk) CrashAt(op, partial int) {
	d.FailAt(op, Fault{Err: ErrDown, Partial: partial, Stay: true})
}

// Mend removes every fault and every limit.
func (d *Disk) Mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = map[int]Fault{}
	d.limit = -1
}

// Fill leaves no room except in the present files.
func (d *Disk) Fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = d.used()
}

// step counts an operation and reports whether it fails.
func (d *Disk) step() (Fault, bool) {
	f, failed := d.faults[d.ops]
	d.ops++
	if failed && f.Stay {
		d.faults[d.ops] = Fault{Err: f.Err, Keep: f.Keep, Revert: f.Revert, Stay: true}
	}
	return f, failed
}

// Kill ends the process: what it has written stays.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restart()
}

// PowerCut stops the machine. chance decides for every write and every change of a name
// since the last sync whether it reached the disk.
func (d *Disk) PowerCut(chance Chance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.moves {
		if chance(2) == 0 {
			continue
		}
		if m.del != "" {
			delete(d.stable, m.del)
		}
		if m.set != "" {
			d.stable[m.set] = m.file
		}
	}
	d.names, d.moves = maps.Clone(d.stable), nil
	seen := map[*inode]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		f := d.names[name]
		if seen[f] {
			continue
		}
		seen[f] = true
		f.stable = lose(f.stable, f.pending, chance)
		f.live, f.pending = slices.Clone(f.stable), nil
	}
	d.boot++
	d.restart()
}

func (d *Disk) restart() {
	d.life++
	d.locked = false
	d.faults = map[int]Fault{}
}

// sector is the smallest piece that is written as a whole. Real sectors are larger; small
// ones tear more.
const sector = 64

// lose applies the writes to b that chance keeps: each is lost, kept, torn at some byte,
// or kept in some of its sectors only.
func lose(b []byte, writes []write, chance Chance) []byte {
	if chance == nil {
		return b
	}
	for _, w := range writes {
		switch chance(5) {
		case 0:
		case 1:
			b = put(b, w.off, w.data)
		case 2:
			b = put(b, w.off, w.data[:chance(len(w.data)+1)])
		case 3:
			from := chance(len(w.data) + 1)
			b = put(b, w.off+int64(from), w.data[from:])
		case 4:
			for from := 0; from < len(w.data); from += sector {
				if chance(2) == 1 {
					b = put(b, w.off+int64(from), w.data[from:min(from+sector, len(w.data))])
				}
			}
		}
	}
	return b
}

func (d *Disk) used() (n int64) {
	for _, f := range d.names {
		n += int64(len(f.live))
	}
	return n
}

// room returns how many bytes can be written at off. Bytes that the file already has need
// no room.
func (d *Disk) room(f *inode, off int64) int64 {
	if d.limit < 0 {
		return 1 << 62
	}
	return max(0, d.limit-d.used()) + max(0, int64(len(f.live))-off)
}
