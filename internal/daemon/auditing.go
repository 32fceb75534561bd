package daemon

import (
	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// auditing translates the settings of the audit log.
func auditing(c config.Config) audit.Settings {
	return audit.Settings{MaxSize: int64(c.Audit.MaxSize) << 20, Files: c.Audit.Files}
}

// record records an act of authority. It returns nil if there is no log.
func (d *Daemon) record(e api.AuditEntry) error {
	if d.audit == nil {
		return nil
	}
	return d.audit.Record(e)
}

// authority records what users do to the leases of others, or that it failed.
func (d *Daemon) authority(effects []lease.Effect, failed error) error {
	if d.audit == nil {
		return nil
	}
	return d.audit.RecordLeases(effects, failed)
}
