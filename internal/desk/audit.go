package desk

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// act records an act of authority and performs it. If the act fails, act records that
// too.
func (d *Desk) act(e api.AuditEntry, do func() error) error {
	e.Outcome = audit.Done
	if err := d.Record(e); err != nil {
		return err
	}
	err := do()
	if err != nil {
		e.Outcome, e.Why = audit.Failed, err.Error()
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
	if t.As != "" {
		facts["as"], facts["uid"] = t.As, strconv.Itoa(t.UID)
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
	d.switching.Lock()
	defer d.switching.Unlock()
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

// actOn acts on a lease. On a lease of another user, that is an act of authority.
func (d *Desk) actOn(by *Caller, verb access.Verb, held ledger.Held, after map[string]string, why string, do func() error) error {
	if access.Owns(by.Actor, held.Object()) {
		return do()
	}
	return d.act(api.AuditEntry{
		Who: audit.Who(by.Actor), What: verb.String(), Object: api.AuditObject{Kind: "lease", Owner: held.Holder.User, ID: held.ID}, After: after, Why: why,
	}, do)
}

// held returns the lease that a caller names and may act on. A fence of zero means any.
func (d *Desk) held(by *Caller, verb access.Verb, name lease.Name, fence uint64) (ledger.Held, error) {
	held, err := d.Ledger.Held(by.Actor, verb, name)
	if err == nil && fence != 0 && fence != held.Fence {
		err = fmt.Errorf("%s %s: %w: %d; the lease with that id has fence %d", verb, held.ID, lease.ErrStaleFence, fence, held.Fence)
	}
	return held, err
}
