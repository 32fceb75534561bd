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
	labels := func(text []byte, parts []lease.Part) []byte {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.appendLabels(text, parts)
	}
	if event, any := lease.EventOf(e, labels); any {
		l.hooks.Event(event)
	}
}

// appendLabels appends the labels of the devices of a lease, or the UUID of a
// device that was not seen yet. The caller holds mu.
func (s *state) appendLabels(text []byte, parts []lease.Part) []byte {
	for i, p := range parts {
		if i > 0 {
			text = append(text, ", "...)
		}
		if d := s.devices[p.GPU]; d != nil {
			text = append(text, d.Device.Label()...)
		} else {
			text = append(text, p.GPU...)
		}
	}
	return text
}
