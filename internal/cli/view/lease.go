package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Granted describes a lease that was just granted or changed.
func (x GPUs) Granted(l api.Lease, to term.Screen) []string {
	who := term.Clean(l.ID)
	switch {
	case l.Was != 0:
		who += " was resized from " + l.Was.String() + ": it"
	case l.Stood:
		who += " stands already: it"
	}
	said := fmt.Sprintf("%s holds %s, until %s (fence %d).", who, x.Had(l), end(l, to.Now.Location()), l.Fence)
	lines := []string{to.Hang(term.Plain, "", said)}
	if l.Note != "" {
		lines = append(lines, to.Hang(term.Yellow, "! ", term.Clean(l.Note)))
	}
	return lines
}

// Ended describes a lease that was released, or says that a request was withdrawn.
func (x GPUs) Ended(ended api.Ended, to term.Screen) []string {
	if ended.Lease == nil {
		return []string{to.Hang(term.Plain, "", term.Clean(ended.ID)+" does not wait any more.")}
	}
	held := words.Age(to.Now.Sub(ended.Lease.Granted))
	if used, known := ended.Lease.Energy.Get(); known {
		held += ", " + used.String() + " used"
	}
	return []string{to.Hang(term.Plain, "", term.Clean(ended.ID)+" is released: "+x.Had(*ended.Lease)+", held for "+held+".")}
}

// Had says how much a lease takes, and where.
func (x GPUs) Had(l api.Lease) string {
	same := true
	for _, p := range l.Parts {
		same = same && p.Memory == l.Parts[0].Memory && p.Slots == l.Parts[0].Slots
	}
	where := make([]string, len(l.Parts))
	for i, p := range l.Parts {
		if where[i] = x.Name(p.GPU); !same {
			where[i] = Amount(p.Memory, p.Slots) + " on " + where[i]
		}
	}
	switch {
	case !same || len(l.Parts) == 0:
		return words.And(where)
	case len(l.Parts) == 1:
		return Amount(l.Parts[0].Memory, l.Parts[0].Slots) + " on " + where[0]
	}
	return Amount(l.Parts[0].Memory, l.Parts[0].Slots) + " on each of " + words.And(where)
}

// end says what ends a lease.
func end(l api.Lease, zone *time.Location) string {
	text := endOf(l, zone)
	if l.Ends != nil {
		text += ", at the latest at " + l.Ends.In(zone).Format(time.DateTime) + ", with its processes"
	}
	return text
}

// endOf says what ends a lease without a time limit.
func endOf(l api.Lease, zone *time.Location) string {
	switch {
	case l.Expires != nil:
		return l.Expires.In(zone).Format(time.DateTime) + " unless it is renewed"
	case l.Binding == "process":
		if l.Holder.PID == 0 {
			return "its process ends" // another user's, which the daemon does not show
		}
		return fmt.Sprintf("process %d ends", l.Holder.PID)
	}
	return "it is released"
}

// Amount returns memory and slots in words.
func Amount(memory gpu.MiB, slots int) string {
	switch {
	case memory == 0:
		return words.Count(slots, "slot")
	case slots == 0:
		return memory.String()
	}
	return memory.String() + " and " + words.Count(slots, "slot")
}

// Holder returns a holder in two words: its name and its user.
func Holder(h api.Holder) string {
	what, user := term.Clean(cmp.Or(h.Service, h.Name)), term.Clean(h.User)
	if what == "" || user == "" {
		return cmp.Or(what, user, "-")
	}
	return what + " (" + user + ")"
}
