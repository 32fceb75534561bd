package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Run waits for the disk after each entry, and writes down how many refusals
// were left out, until ctx ends. One wait serves all entries that were written
// before it.
func (l *Log) Run(ctx context.Context) {
	minute := time.NewTicker(period)
	defer minute.Stop()
	for {
		select {
		case <-l.dirty:
			l.Sync()
		case <-minute.C:
			l.sumUp()
		case <-ctx.Done():
			l.sumUp()
			l.Sync()
			return
		}
	}
}

// Close waits for the disk once more, and closes the log. An entry that is
// recorded later opens it again.
func (l *Log) Close() {
	l.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.expect = l.newest
		l.close()
	}
}

// Sync waits until the disk has what was written, and tells the journal.
func (l *Log) Sync() {
	l.mu.Lock()
	file, newest := l.file, l.newest
	if file == nil {
		l.mu.Unlock()
		return
	}
	if err := file.Sync(l.mu.Unlock); err != nil {
		// The kernel may have dropped what it could not write, and does not say so
		// again. Whatever is missing breaks the chain.
		l.failures.Add(1)
		l.tell(gpu.Serious, "The disk did not take the newest entries of the audit log, which a power cut would lose: %v", err)
		l.mu.Lock()
		l.doubtful = true
		l.mu.Unlock()
		return
	}
	if l.marked != nil {
		l.marked.Set(newest)
	}
}

// sumUp writes down how many refusals of each caller were left out.
func (l *Log) sumUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, left := range l.ration.end() {
		left.entry.Why = fmt.Sprintf("%d more refusals within a minute are left out", left.n)
		left.entry.Object.ID = ""
		_ = l.record(left.entry) // it was refused, whether it is written down or not
	}
}
