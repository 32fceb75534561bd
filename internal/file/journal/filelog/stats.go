package filelog

import "github.com/berth-gpu/berth/internal/file/journal"

// Stats implements journal.Journal.
func (l *Log) Stats() journal.Stats {
	l.statsMu.Lock()
	defer l.statsMu.Unlock()
	return l.stats
}

// publish updates the stats. The caller holds mu, or is opening.
func (l *Log) publish() {
	disk := l.alloc + l.snapshotBytes
	for _, n := range l.sizes {
		disk += n
	}
	if !l.suspect && !l.unnamed {
		l.fault = nil
	}
	l.statsMu.Lock()
	defer l.statsMu.Unlock()
	l.stats = journal.Stats{
		LastSeq:         l.last,
		SnapshotSeq:     l.base(),
		SnapshotEntries: l.snapshotEntries,
		SnapshotBytes:   l.snapshotBytes,
		LogEntries:      int(l.last - l.base()),
		LogBytes:        l.logBytes,
		DiskBytes:       disk,
		Segments:        len(l.segments),
		Syncs:           l.syncs,
		Fault:           l.fault,
	}
}
