package view

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
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

// Cancelled says that the programs of a lease are being ended, or that a request was
// withdrawn.
func (x GPUs) Cancelled(ended api.Ended, to term.Screen) []string {
	if ended.Lease == nil {
		return x.Ended(ended, to)
	}
	id := term.Clean(ended.ID)
	said := id + " ends, with its programs: " + x.Had(*ended.Lease) + "."
	if runner := term.Clean(ended.Lease.ID); runner != id {
		said = id + " is a part of " + runner + ", which ends with the program that started both: " + x.Had(*ended.Lease) + "."
	}
	return []string{to.Hang(term.Plain, "", said+" What does not end by itself is killed after optimization.deallocation_timeout.")}
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

// LeaseFilter selects leases and requests. A field selects those with one of its values,
// and all if it has none.
type LeaseFilter struct {
	fleet.Filter
	GPUs []string // UUIDs
}

// Any reports whether the filter selects only some.
func (f LeaseFilter) Any() bool { return f.Filter.Any() || len(f.GPUs) > 0 }

// Apply returns the leases and requests that match. A waiting request is on no device
// yet.
func (f LeaseFilter) Apply(all api.Leases) api.Leases {
	chosen := api.Leases{Leases: []api.Lease{}, Waiting: []api.Waiting{}}
	if !f.Any() && all.Leases != nil && all.Waiting != nil {
		return api.Leases{Leases: all.Leases, Waiting: all.Waiting}
	}
	for _, l := range all.Leases {
		on := slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return slices.Contains(f.GPUs, p.GPU) })
		if f.Matches(l.Holder) && (len(f.GPUs) == 0 || on) {
			chosen.Leases = append(chosen.Leases, l)
		}
	}
	for _, w := range all.Waiting {
		if f.Matches(w.Holder) && len(f.GPUs) == 0 {
			chosen.Waiting = append(chosen.Waiting, w)
		}
	}
	return chosen
}

// Missed says what to do if nothing matches: which service or user was probably meant, or
// where to look.
func (f LeaseFilter) Missed(all api.Leases) string {
	var services, users []string
	for _, h := range Holders(all) {
		services, users = append(services, h.Service), append(users, h.User)
	}
	for _, choice := range []struct {
		flag         string
		asked, known []string
	}{{"--service", f.Services, services}, {"--user", f.Users, users}} {
		for _, name := range choice.asked {
			if slices.Contains(choice.known, name) {
				continue
			}
			if near, ok := words.Nearest(name, slices.DeleteFunc(choice.known, func(s string) bool { return s == "" })); ok {
				return "Did you mean " + choice.flag + " " + near + "?"
			}
		}
	}
	return "berth leases lists all of them."
}

// Holders yields the ids of leases and of waiting requests, with their holders.
func Holders(all api.Leases) iter.Seq2[string, api.Holder] {
	return func(yield func(string, api.Holder) bool) {
		for _, l := range all.Leases {
			if !yield(l.ID, l.Holder) {
				return
			}
		}
		for _, w := range all.Waiting {
			if !yield(w.ID, w.Holder) {
				return
			}
		}
	}
}

// LeaseName returns the name of a holder's lease: the id, or USER/ID if several leases
// or requests in all have the id.
func LeaseName(id string, h api.Holder, all api.Leases) string {
	others := 0
	for other := range Holders(all) {
		if other == id {
			others++
		}
	}
	if others > 1 && h.User != "" {
		return h.User + "/" + id
	}
	return id
}

// Paced says which share a lease is held to.
func (x GPUs) Paced(l api.Lease, to term.Screen) []string {
	if l.Paced == nil {
		return []string{to.Hang(term.Plain, "", term.Clean(l.ID)+" runs freely.")}
	}
	return []string{pacedLine(l.ID, l.Paced, to)}
}

func percent(share float64) string { return fmt.Sprintf("%d %%", int(math.Round(100*share))) }

// pacedLine says in one line which share a lease is held to, by whom, and how much it
// gets.
func pacedLine(id string, p *api.Paced, to term.Screen) string {
	text := term.Clean(id) + " is held to " + percent(p.Share)
	if len(p.HeldBy) > 0 {
		by := p.HeldBy[0]
		text += " by " + map[string]string{"owner": "its owner", "operator": "an operator", "throttle": "gpu.throttle", "service": "its service"}[by.Source]
		if by.Why != "" {
			text += ": " + term.Clean(by.Why)
		}
	}
	measured, known := p.Measured.Get()
	switch {
	case p.Refused != "":
		return to.Hang(term.Yellow, "! ", text+"; but it runs freely: "+term.Clean(p.Refused))
	case known && p.MeasuredBy == "driver":
		text += fmt.Sprintf(" (it gets %s)", percent(measured))
	case known:
		text += fmt.Sprintf(" (it gets %s by duty, not measured)", percent(measured))
	}
	return to.Hang(term.Plain, "", text+".")
}

// paced lists the leases that are held to a share, each once.
func (s *Status) paced(to term.Screen) []string {
	var lines []string
	for _, d := range s.GPUs {
		for _, l := range d.Leases {
			if l.Paced == nil {
				continue
			}
			if line := pacedLine(l.ID, l.Paced, to); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// Moved is a lease before and after the daemon moved its memory or changed its size.
type Moved struct{ Before, After api.Lease }

// Parked says that a lease is parked, how fast that was, and how much memory it takes.
func (x GPUs) Parked(m Moved, to term.Screen) []string {
	l := m.After
	text := term.Clean(l.ID) + " is parked"
	if p := l.Parking; p != nil {
		if speed := m.speed(p.Host); speed != "" {
			text += ": " + speed
		}
		if p.Host > 0 {
			text += fmt.Sprintf(". It takes %s of the machine's memory", p.Host)
		}
		if p.Ground == "owner" {
			text += ". Its processes share no GPU memory, its owner says"
		}
	}
	return []string{to.Hang(term.Plain, "", text+". Get it back: berth resume "+words.Shell(term.Clean(l.ID)))}
}

// Resumed says that a lease is back on its device, and how fast that was.
func (x GPUs) Resumed(m Moved, to term.Screen) []string {
	var moved gpu.MiB
	if m.Before.Parking != nil {
		moved = m.Before.Parking.Host
	}
	text := term.Clean(m.After.ID) + " is back: it holds " + x.Had(m.After)
	if speed := m.speed(moved); speed != "" {
		text += "; " + speed
	}
	return append([]string{to.Hang(term.Plain, "", text+".")}, failure(m.After, to)...)
}

// Resized describes a lease that has changed its size.
func (x GPUs) Resized(m Moved, to term.Screen) []string {
	l := m.After
	if len(m.Before.Parts) > 0 && l.Was == 0 && len(l.Parts) > 0 && m.Before.Parts[0].Memory != l.Parts[0].Memory {
		l.Was = m.Before.Parts[0].Memory
	}
	return x.Granted(l, to)
}

// speed says how much memory was moved, how long that took, and how fast it was. It
// returns "" if nothing was moved.
func (m Moved) speed(moved gpu.MiB) string {
	took := 0.0
	if m.After.Parking != nil {
		took = m.After.Parking.Moving
	}
	if m.Before.Parking != nil {
		took -= m.Before.Parking.Moving
	}
	if moved <= 0 || took <= 0 {
		return ""
	}
	return fmt.Sprintf("%s moved in %s, %.1f GiB/s", moved, words.Duration(time.Duration(took*float64(time.Second))), float64(moved)/1024/took)
}

// Moving says in a few words where the memory of a lease is moving. It returns "" if
// the memory is not moving.
func (x GPUs) Moving(l api.Lease, now time.Time) string {
	if l.Parking == nil || len(l.Parts) == 0 {
		return ""
	}
	id, age := term.Clean(l.ID), words.Age(now.Sub(l.Parking.Since))
	switch l.State {
	case "parking":
		return fmt.Sprintf("%s: %s moves from %s to the machine's memory, for %s", id, amountMoved(l), x.Name(l.Parts[0].GPU), age)
	case "resuming":
		return fmt.Sprintf("%s: %s moves back to %s, for %s", id, amountMoved(l), x.Name(l.Parts[0].GPU), age)
	}
	return ""
}

// amountMoved says how much memory of a lease is moving.
func amountMoved(l api.Lease) string {
	moved := l.Parking.Host
	if measured, known := l.Parts[0].Measured.Get(); known && moved == 0 {
		moved = measured
	}
	if moved == 0 {
		return "its memory"
	}
	return moved.String()
}

// failure says what went wrong when the memory of a lease was moved.
func failure(l api.Lease, to term.Screen) []string {
	if l.Parking == nil || l.Parking.Failed == "" {
		return nil
	}
	return []string{to.Hang(term.Red, "✗ ", term.Clean(l.ID)+": "+term.Clean(l.Parking.Failed))}
}

// whereabouts describes the memory of a lease, with a line each: that it is parked or
// moving, that it was shrunk, and that it is idle.
func whereabouts(l api.Lease, to term.Screen) []string {
	var lines []string
	add := func(text string) { lines = append(lines, to.Hang(term.Plain, "", term.Clean(l.ID)+" "+text+".")) }
	if p := l.Parking; p != nil {
		age := words.Age(to.Now.Sub(p.Since))
		switch l.State {
		case "parking":
			add("is being parked" + given(" by ", term.Clean(p.By.User)) + ", for " + age + given(": ", term.Clean(p.Why)))
		case "parked":
			text := "has been parked" + given(" by ", term.Clean(p.By.User)) + " for " + age + given(": ", term.Clean(p.Why))
			if p.Host > 0 {
				text += "; it takes " + p.Host.String() + " of the machine's memory"
			}
			if p.Returns {
				text += ", and returns at its turn"
			}
			add(text)
		case "resuming":
			add("is on its way back to its GPU, for " + age)
		}
	}
	if p := l.Pool; p != nil {
		add("is a pool: " + PoolText(p))
	}
	if l.Exclusive {
		add("has " + words.Count(len(l.Parts), "GPU") + " alone")
	}
	if l.Libraries != nil {
		var held []string
		for _, each := range l.Libraries.Libraries {
			held = append(held, fmt.Sprintf("%s has %s and keeps %s for later", term.Clean(each.Name), each.Allocated.Beside(each.Cached), each.Cached.Beside(each.Allocated)))
		}
		lines = append(lines, to.Hang(term.Plain, "", term.Clean(l.ID)+": "+words.And(held)))
	}
	if l.Comment != "" {
		lines = append(lines, to.Hang(term.Plain, "", term.Clean(l.ID)+": "+term.Clean(l.Comment)))
	}
	if l.Asked > 0 && len(l.Parts) > 0 {
		add(fmt.Sprintf("asked for %s and was shrunk to %s, because it does not use the rest", l.Asked.Beside(l.Parts[0].Memory), l.Parts[0].Memory.Beside(l.Asked)))
	}
	if i := l.Idle; i != nil {
		text := "has not used its GPU for " + words.Age(to.Now.Sub(i.Since))
		if use, known := i.Utilization.Get(); known {
			text += fmt.Sprintf(" (%.0f %% utilisation, %s held)", float64(use), i.Memory)
		}
		add(text)
	}
	return append(lines, failure(l, to)...)
}

// PoolText says what became of the memory of a pool, or returns "" for nil.
func PoolText(p *api.Pool) string {
	if p == nil {
		return ""
	}
	if p.Leases == 0 {
		return "nobody has taken any of it, and " + p.Left.String() + " are left"
	}
	return fmt.Sprintf("%s taken by %s, %s left", p.Taken.Beside(p.Left), words.Count(p.Leases, "lease"), p.Left.Beside(p.Taken))
}

// parked says how much memory of the machine parked leases take, and lists them.
func (s *Status) parked(to term.Screen) []string {
	var memory gpu.MiB
	var names []string
	for _, d := range s.GPUs {
		for _, l := range d.Leases {
			if l.State == "parked" {
				memory += l.Host
				names = append(names, term.Clean(l.ID)+" of GPU "+strconv.Itoa(d.Device.Index))
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	text := words.Count(len(names), "lease") + words.Form(len(names), " is", " are") + " parked"
	if memory > 0 {
		text += " in " + memory.String() + " of the machine's memory"
	}
	return []string{to.Hang(term.Plain, "", text+": "+words.Few(names, 5)+".")}
}
