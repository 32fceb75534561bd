package desk

import (
	"context"
	"io"
	"os"
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// BackUp writes an archive of the state folder. It is for root, and for the user of the
// daemon: it has what every user has submitted. Both are known on the socket alone, and
// without a token, which is for the API.
func (d *Desk) BackUp(ctx context.Context, by Caller, q BackupQuery, begin func(), to io.Writer) error {
	switch {
	case d.backup == nil:
		return Refuse(Conflict, "no_state", "This daemon keeps no state.")
	case access.May(by.Actor, access.Backup, access.Object{}) != nil, by.Door != access.Socket, by.Token != "", by.UID != 0 && by.UID != os.Geteuid():
		return Refuse(Forbidden, "not_allowed", "Only root and the user that the daemon runs as may back up its state, on the Unix socket and without a token.")
	}
	by.aside()
	return d.record.act(api.AuditEntry{
		Who: audit.Who(by.Actor), What: access.Backup.String(), Object: api.AuditObject{Kind: "state"}, After: map[string]string{"secrets": strconv.FormatBool(q.Secrets)},
	}, func() error {
		begin()
		return d.backup(to, q)
	})
}
