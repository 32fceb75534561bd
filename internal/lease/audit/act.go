package audit

import (
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// verbs has the verb of each kind of effect whose verb has another name.
var verbs = map[lease.Kind]access.Verb{
	lease.Granted: access.Speak, lease.Asked: access.Speak, lease.Withdrawn: access.Withdraw,
}

// RecordLeases writes down, before they are done, those effects that are acts on the
// things of others or choose a scope. If it returns an error, none of them may be done.
// If failed is not nil, it writes down that they were not done after all. A nil Log
// writes nothing.
func (l *Log) RecordLeases(effects []lease.Effect, failed error) error {
	if l == nil {
		return nil
	}
	for i := range effects {
		if !effects[i].OnOthers() && !effects[i].SetsScope() {
			continue
		}
		act := leaseAct(&effects[i])
		if failed != nil {
			act.Outcome, act.Why = Failed, failed.Error()
		}
		err := l.Record(act)
		if err != nil && failed == nil {
			_ = l.RecordLeases(effects[:i], err)
			return err
		}
	}
	return nil
}

// leaseAct returns the entry for what somebody does to the lease or the request
// of another user.
func leaseAct(e *lease.Effect) api.AuditEntry {
	entry := api.AuditEntry{Who: Who(e.By), What: string(e.Kind), Why: e.Why, Outcome: Done}
	if verb, named := verbs[e.Kind]; named {
		entry.What = verb.String()
	}
	if e.SetsScope() && !e.OnOthers() {
		entry.What = access.Scope.String()
	}
	if subject := e.Lease(); subject != nil {
		entry.Object = api.AuditObject{Kind: "lease", Owner: subject.Holder.User, ID: subject.ID}
		entry.Before, entry.After = different(factsOf(e.Before), factsOf(e.After))
		return entry
	}
	r := e.Request
	entry.Object = api.AuditObject{Kind: "request", Owner: r.Holder.User, ID: r.ID}
	if e.Kind == lease.Asked && r.Into != 0 { // it waits to be resumed or resized
		entry.What, entry.Why, entry.Object.Kind = r.For(), r.Why, "lease"
	}
	facts := map[string]string{"memory_mb": strconv.FormatInt(int64(r.Memory), 10), "slots": strconv.Itoa(r.Slots)}
	if e.Kind == lease.Withdrawn {
		entry.Before = facts
	} else {
		entry.After = facts
	}
	return entry
}

// factsOf returns what an act can change of a lease; nil if there is no lease.
func factsOf(l *lease.Lease) map[string]string {
	if l == nil {
		return nil
	}
	var gpus []string
	for _, p := range l.Parts {
		gpus = append(gpus, p.GPU)
	}
	total := l.Total()
	facts := map[string]string{
		"gpus": strings.Join(gpus, " "), "memory_mb": strconv.FormatInt(int64(total.Memory), 10), "slots": strconv.Itoa(total.Slots),
		"state": string(l.State), "binding": string(l.Binding),
	}
	if l.Binding == lease.ByTTL {
		facts["expires"] = l.Expires.UTC().Format(time.RFC3339)
	}
	if l.Holder.PID != 0 {
		facts["pid"] = strconv.Itoa(l.Holder.PID)
	}
	if len(l.Scope) > 0 {
		facts["scope"] = strings.Join(l.Scope, " ")
	}
	return facts
}

// different leaves out of two sets of facts what is the same in both.
func different(before, after map[string]string) (map[string]string, map[string]string) {
	for name, value := range before {
		if other, has := after[name]; has && other == value {
			delete(before, name)
			delete(after, name)
		}
	}
	return before, after
}
