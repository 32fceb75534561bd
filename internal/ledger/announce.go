package ledger

import (
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/notice"
)

// announce sends the event of an effect, if it has one. A request that the same
// batch granted does not wait.
func (l *Ledger) announce(e *lease.Effect) {
	if l.hooks.Event == nil || e.Kind == lease.Asked && !l.waits(e.Request) {
		return
	}
	if event, any := notice.Of(e, l.appendLabels); any {
		l.hooks.Event(event)
	}
}

// waits reports whether a request is in the queue.
func (l *Ledger) waits(r *lease.Request) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Request(r.Key()) == r
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
