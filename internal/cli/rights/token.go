package rights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
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

func newTokenList(con *console.Console) *cobra.Command {
	return console.Show(con, &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Long: `List the tokens that the daemon accepts: the role of each, the service that it
is for, who created it and when, when it expires, and when somebody last used
it. The token of the configuration is in the list too.`,
		Example: "  berth token list\n  berth token list --json | jq -r '.tokens[] | select(.role==\"admin\") | .name'",
	}, (*client.Client).Tokens, view.Tokens)
}

func newTokenRevoke(con *console.Console) *cobra.Command {
	return console.Act(con, &cobra.Command{
		Use:   "revoke NAME",
		Short: "End a token",
		Long: `End a token. The daemon refuses it from then on, also on connections that are
open. Leases that its users hold stay.`,
		Example:           "  berth token revoke grafana",
		ValidArgsFunction: console.OfferEach(con, (*client.Client).Tokens, func(all api.Tokens) []api.Token { return all.Tokens }, func(k api.Token) (name, about string) { return k.Name, k.Role }),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "" {
				return console.Usage("the name of the token is empty: berth token list names all of them")
			}
			return nil
		},
	}, func(ctx context.Context, c *client.Client, args []string) (api.Token, error) {
		return c.RevokeToken(ctx, args[0])
	}, view.TokenRevoked)
}

// longestSecret is more than the length of any secret. The daemon has its own limit.
const longestSecret = 64 << 10

// tokenRoles returns the roles that a token can give, from lowest to highest.
func tokenRoles() (names []string) {
	for role := access.Scraper; role <= access.Admin; role++ {
		names = append(names, role.String())
	}
	return names
}

type tokenCreateOptions struct {
	*console.Console
	request api.TokenRequest
	expires console.Seconds
	stdin   bool // read the secret
	file    string
	wait    console.Seconds // for a daemon that is starting
}

func newTokenCreate(con *console.Console) *cobra.Command {
	o := &tokenCreateOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Create a token, and print its secret once",
		Long: `Create a token, and print its secret on standard output, and nothing else there.
Nobody can show the secret again: keep it in a file that only its users can
read. They name the file in BERTH_TOKEN_FILE, give the secret as BERTH_TOKEN, or
send it as "Authorization: Bearer SECRET".

With --stdin or --secret-file, the secret is the one that you write to standard
input or that is in the file, and the command prints none. The same command
again changes nothing then, so a script can run it at every start. If the file
has another secret since, --replace puts it in the place of the old one, which
the daemon refuses from then on.

With --as, the token is bound to a user of the machine: whoever shows it is that
user, with the role of the token, and can submit jobs, which run as that user.
Without it, a token runs no jobs. Who has such a token has what a shell of that
user has. You make one on the machine itself, over the Unix socket and without a
token.`,
		Example: `  berth token create grafana --role scraper > /etc/prometheus/berth.token
  berth token create ci --role user --service ci --expires 90d
  berth token create nightly --role user --as ada --expires 30d
  openssl rand -hex 32 | berth token create old-ci --role user --stdin
  berth token create kubernetes --role operator --secret-file token --replace`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("as") && o.request.As == "" {
				return console.Usage("--as is empty: give a login name, as in --as ada")
			}
			o.request.Name, o.request.TTL = args[0], o.expires.Limit()
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.request.Role, "role", "", "give whoever shows the token this `ROLE`:\n"+strings.Join(tokenRoles(), ", "))
	flags.Var(&o.expires, "expires", "the token expires after this `TIME`, as in 90d\n(default: never)")
	flags.StringVar(&o.request.Service, "service", "", "the token is good for this `SERVICE` only\n(default: any)")
	flags.StringVar(&o.request.As, "as", "", "bind the token to this `USER` of the machine, whose\njobs it runs; not root (default: nobody)")
	flags.BoolVar(&o.stdin, "stdin", false, "read the secret from standard input")
	flags.StringVar(&o.file, "secret-file", "", "read the secret from this `FILE`")
	flags.BoolVar(&o.request.Replace, "replace", false, "end the token that has this name, if there is one")
	flags.Var(&o.wait, "wait", "wait this `TIME` for a daemon that is not there yet\n(default: do not wait)")
	console.CompleteWith(cmd, "role", tokenRoles())
	console.CompleteFlag(cmd, "service", con.Services())
	console.CompleteFlag(cmd, "as", con.Users())
	return cmd
}

func (o *tokenCreateOptions) run(ctx context.Context) error {
	if err := o.check(ctx); err != nil {
		return err
	}
	c, err := o.awaitDaemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	made, err := c.CreateToken(ctx, o.request)
	if err != nil {
		return err
	}
	if o.request.Secret != "" {
		made.Secret = "" // its owner has it
	}
	fmt.Fprintln(o.Err, "berth: "+view.TokenCreated(made.Token, o.Screen()))
	if made.Secret == "" && !o.JSON {
		return nil
	}
	return o.Answer(made, made.Secret)
}

// awaitDaemon connects to the daemon. If there is none, it tries again for as long as
// --wait allows.
func (o *tokenCreateOptions) awaitDaemon(ctx context.Context) (*client.Client, error) {
	over := time.After(time.Duration(o.wait.Or(0) * float64(time.Second)))
	for {
		c, err := o.Daemon(ctx)
		if missing := (*client.NoDaemonError)(nil); !errors.As(err, &missing) {
			return c, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-over:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// check refuses options that cannot be meant, and reads the secret.
func (o *tokenCreateOptions) check(ctx context.Context) error {
	switch {
	case o.request.Name == "":
		return console.Usage("the name of the token is empty: give one, as in berth token create grafana --role scraper")
	case o.request.Role == "":
		return console.Usage("--role is missing: give %s", words.Or(tokenRoles()))
	case !slices.Contains(tokenRoles(), o.request.Role):
		return console.Hinted(console.Usage("there is no role %q for a token", o.request.Role), words.Suggest(o.request.Role, tokenRoles(), "the roles are "+words.And(tokenRoles())))
	case o.expires.Known() && o.expires.Or(0) == 0:
		return console.Usage("--expires must be above 0")
	case o.stdin && o.file != "":
		return console.Usage("give --stdin or --secret-file, not both")
	case o.stdin:
		return o.readSecret(ctx, "-")
	case o.file != "":
		return o.readSecret(ctx, o.file)
	}
	return nil
}

// readSecret reads the secret from a file.
func (o *tokenCreateOptions) readSecret(ctx context.Context, file string) error {
	text, err := o.Read(ctx, file, longestSecret+1)
	text = bytes.TrimRight(text, "\r\n")
	name := console.NameOf(file)
	switch {
	case err != nil:
		return fmt.Errorf("read the secret: %w", err)
	case len(text) == 0:
		return console.Usage("%s holds no secret", name)
	case len(text) > longestSecret:
		return console.Usage("the secret in %s is longer than %d bytes", name, longestSecret)
	case !utf8.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return console.Usage("the secret in %s must be one line of letters, digits and signs that a header can carry", name)
	}
	o.request.Secret = string(text)
	return nil
}
