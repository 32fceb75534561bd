package ledger

import (
	"github.com/berth-gpu/berth/internal/lease"
)

// announce sends the event of an effect, if it has one. A request that the same
// batch granted does not wait.
func (l *Ledger) announce(e *lease.Effect) {
	if l.hooks.Event == nil {
		return
	}
	if e.Kind == lease.Asked {
		l.mu.RLock()
		waits := l.book.Request(e.Request.Key()) == e.Request
		l.mu.RUnlock()
		if !waits {
			return
		}
	}
	if notice, any := lease.NoticeOf(e, l.appendLabels); any {
		l.hooks.Event(notice)
	}
}

// appendLabels appends the labels of the devices of a lease, or the UUID of a
// device that was not seen yet.
func (l *Ledger) appendLabels(text []byte, parts []lease.Part) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i, p := range parts {
		if i > 0 {
			text = append(text, ", "...)
		}
		if d := l.devices[p.GPU]; d != nil {
			text = append(text, d.Device.Label()...)
		} else {
			text = append(text, p.GPU...)
		}
	}
	return text
}
