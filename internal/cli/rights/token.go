package rights

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newToken(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens",
		Long: `Create, list and revoke tokens. A token gives its role to everyone who shows it:
a program on another machine, a container, a scraper of metrics. You need the
role admin. The daemon keeps no secrets, only their hashes.

Several tokens work side by side. To replace one, create another, give it to
whoever uses the old one, then revoke the old one.`,
		Example: `  berth token create grafana --role scraper
  berth token list
  berth token revoke grafana`,
	}
	cmd.AddCommand(newTokenCreate(con), newTokenList(con), newTokenRevoke(con))
	return cmd
}

// completeToken offers the names of the tokens that the daemon accepts.
func completeToken(con *console.Console) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, console.NoFiles
		}
		for _, k := range console.Known(con, cmd, (*client.Client).Tokens).Tokens {
			offers = append(offers, term.Clean(k.Name)+"\t"+term.Clean(k.Role))
		}
		return offers, console.NoFiles
	}
}
