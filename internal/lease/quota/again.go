package quota

import (
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// NamedAfter reports whether an id is the name of a service, or that and a number. A
// client that has a lease with another id has asked for that id.
func NamedAfter(id, service string) bool {
	id = words.Service(id)
	number, numbered := strings.CutPrefix(id, service+"-")
	_, err := strconv.ParseUint(number, 10, 32)
	return id == service || numbered && err == nil
}

// Answers reports whether a lease is what a request asks for, whatever its size
// and its id.
func Answers(l *lease.Lease, r *lease.Request) bool {
	switch {
	case !l.Holder.Same(r.Holder), l.Holder.Service != r.Holder.Service, l.Binding != r.Binding, l.Unit != r.Unit, len(l.Scope) > 0:
		return false
	case r.Binding == lease.ByProcess && (l.Holder.Boot != r.Holder.Boot || l.Holder.PID != r.Holder.PID || l.Holder.Start != r.Holder.Start):
		return false
	case len(l.Parts) != r.GPUs || l.Parts[0].Slots != r.Slots:
		return false
	}
	return r.Where.GPU == "" || l.Parts[0].GPU == r.Where.GPU
}
