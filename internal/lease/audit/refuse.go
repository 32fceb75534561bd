package audit

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

// A caller who is refused again and again must not push older entries out of
// the log.
const (
	perMinute = 10   // refusals of one caller that are written down
	mostUsers = 1024 // users who are counted by themselves; the others are counted together
	mostHosts = 8    // hosts of unknown callers, likewise
	period    = time.Minute
)

// Refuse writes down that somebody was refused. Beyond a few in a minute it only counts
// them, and Run writes the count down. A log that cannot be written changes nothing: the
// caller is refused anyway.
func (l *Log) Refuse(e api.AuditEntry) {
	e.Outcome = Refused
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ration.admit(e) {
		_ = l.record(e)
	}
}

// ration counts refusals in a minute.
type ration struct {
	used  map[string]*share // by caller
	hosts int               // how many callers in used are hosts
}

// share counts the refusals of one caller.
type share struct {
	n     int
	entry api.AuditEntry // the last one
}

func newRation() ration { return ration{used: map[string]*share{}} }

// admit reports whether a refusal is written down, and counts it.
func (r *ration) admit(e api.AuditEntry) bool {
	caller, host := callerOf(e.Who)
	if _, counted := r.used[caller]; !counted && (host && r.hosts >= mostHosts || !host && len(r.used)-r.hosts >= mostUsers) {
		caller, host, e.Who = "", false, api.AuditActor{User: "others", Door: e.Who.Door}
	}
	s := r.used[caller]
	if s == nil {
		s = &share{}
		r.used[caller] = s
		if host {
			r.hosts++
		}
	}
	s.n++
	s.entry = e
	return s.n <= perMinute
}

// callerOf names the caller that a refusal counts for: the user, or the host of an
// unknown one.
func callerOf(who api.AuditActor) (caller string, isHost bool) {
	if who.UID.Known() || who.Token != "" {
		return fmt.Sprint("user ", who.UID.Or(access.NoUID), " token ", who.Token), false
	}
	host := who.Address
	if at, err := netip.ParseAddrPort(who.Address); err == nil {
		host = at.Addr().String()
	}
	return "host " + host, true
}

// end begins a new minute, and returns what was left out in the old one.
func (r *ration) end() []share {
	var list []share
	for _, caller := range slices.Sorted(maps.Keys(r.used)) {
		if s := r.used[caller]; s.n > perMinute {
			list = append(list, share{s.n - perMinute, s.entry})
		}
	}
	*r = newRation()
	return list
}
