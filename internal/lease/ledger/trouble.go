package ledger

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// noteTrouble sends an event when the journal stops working, and when it works
// again.
func (h *Hooks) noteTrouble(err error) {
	if err == nil {
		h.journal(gpu.Note, "The daemon can write the journal again.")
		return
	}
	h.journal(gpu.Serious, "The daemon cannot write the journal, so it grants no new leases; present leases are not affected: %v", err)
}

// Trouble returns why the journal takes no new grants now, or nil if it does. It takes no
// lock.
func (l *Ledger) Trouble() error { return l.journal.Trouble() }

// probe tries a write to a journal in trouble, with an entry that changes nothing. The
// clerk calls it when it has no errand that would try one.
func (l *Ledger) probe() {
	if l.Trouble() == nil {
		return
	}
	l.mu.RLock()
	mark := stored.NewFence(l.book.Fence(), l.boot)
	l.mu.RUnlock()
	_ = l.journal.Write([][]byte{lease.AppendEntry(nil, &mark)}, journal.Care{}) // append notes the result
}
