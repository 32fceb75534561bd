package desk

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/audit/chain"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// act records an act of authority and performs it. If the act fails, act records that
// too.
func (d *Desk) act(e api.AuditEntry, do func() error) error {
	e.Outcome = chain.Done
	if err := d.Record(e); err != nil {
		return err
	}
	err := do()
	if err != nil {
		e.Outcome, e.Why = chain.Failed, err.Error()
		_ = d.Record(e) // the act failed, whether or not the log says so
	}
	return err
}

// tokenAct returns the audit entry for a change of a token.
func tokenAct(by *Caller, what string, t tokens.Token) api.AuditEntry {
	facts := map[string]string{"role": t.Role.String()}
	if t.Service != "" {
		facts["service"] = t.Service
	}
	if !t.Expires.IsZero() {
		facts["expires"] = t.Expires.UTC().Format(time.RFC3339)
	}
	e := api.AuditEntry{Who: audit.Who(by.Actor), What: what, Object: api.AuditObject{Kind: "token", Owner: t.By, ID: t.Name}}
	if e.After = facts; what == access.Revoke.String() {
		e.Before, e.After = facts, nil
	}
	return e
}

// Monitoring switches the sampling loop on or off, and reports whether that
// changed anything.
func (d *Desk) Monitoring(by Caller, on bool) (changed bool, err error) {
	if d.Monitor.Running() == on {
		return false, nil
	}
	word := map[bool]string{true: "on", false: "off"}
	err = d.act(api.AuditEntry{
		Who: audit.Who(by.Actor), What: access.Monitor.String(), Object: api.AuditObject{Kind: "monitoring"},
		Before: map[string]string{"monitoring": word[!on]}, After: map[string]string{"monitoring": word[on]},
	}, func() error {
		if on {
			changed = d.Monitor.Start(lease.ByOf(by.Actor))
			if d.Throttle != nil {
				d.Throttle.Resume()
			}
		} else {
			if d.Throttle != nil {
				d.Throttle.Rest(context.Background()) // nobody would notice that a device is cool again
			}
			changed = d.Monitor.Stop(lease.ByOf(by.Actor))
		}
		return nil
	})
	if err != nil {
		return false, Refused(err)
	}
	return changed, nil
}

// recordTrim records that somebody asks the lease of another user for memory. The ledger
// does not take part in that, so it does not record it.
func (d *Desk) recordTrim(by *Caller, held ledger.Held) error {
	if access.Owns(by.Actor, held.Object()) {
		return nil
	}
	return d.Record(api.AuditEntry{
		Who: audit.Who(by.Actor), What: access.Trim.String(), Outcome: chain.Done,
		Object: api.AuditObject{Kind: "lease", Owner: held.Holder.User, ID: held.ID},
	})
}
