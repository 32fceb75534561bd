// Package rights holds the commands about rights: they show who the user is and what
// they may have, open the page, make and revoke tokens, read the audit log, and let agents in.
package rights

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Commands returns the commands about rights.
func Commands(con *console.Console, agents Agents) []*cobra.Command {
	return []*cobra.Command{newOpen(con), newSessions(con), newWhoami(con), newQuota(con), newToken(con), newAudit(con), newMCP(con, agents)}
}
