// Package rights holds the commands about rights: they show who the user is and what
// they may have, open the page, make and revoke tokens, read the audit log, and let agents in.
package rights

import (
	"github.com/berth-gpu/berth/internal/cli/console"
)

// Commands returns the commands about rights.
func Commands(agents Agents) []console.Command {
	return []console.Command{
		console.Make(newOpen, "open"),
		console.Make(newSessions, "sessions"),
		console.Make(newWhoami, "whoami"),
		console.Make(newQuota, "quota"),
		console.Make(newToken, "token"),
		console.Make(newAudit, "audit"),
		console.MakeWith(newMCP, agents, "mcp"),
	}
}
