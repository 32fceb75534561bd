// Package rights holds the commands about who may what: they tell who one is
// and what one may have, open the page, make and revoke tokens, and read the audit log.
package rights

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Commands returns the commands about who may what.
func Commands(con *console.Console) []*cobra.Command {
	return []*cobra.Command{newOpen(con), newSessions(con), newWhoami(con), newQuota(con), newToken(con), newAudit(con)}
}
