package desk

import (
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// recorder records acts of authority. If it fails, the act must not be done.
type recorder func(api.AuditEntry) error

// act records an act of authority and performs it. If the act fails, act records that
// too.
func (r recorder) act(e api.AuditEntry, do func() error) error {
	e.Outcome = audit.Done
	if err := r(e); err != nil {
		return err
	}
	err := do()
	if err != nil {
		e.Outcome, e.Why = audit.Failed, err.Error()
		_ = r(e) // the act failed, whether or not the log says so
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
