package daemon

import (
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// auditing translates the settings of the audit log.
func auditing(c config.Config) audit.Settings {
	return audit.Settings{MaxSize: int64(c.Audit.MaxSize) << 20, Files: c.Audit.Files}
}
