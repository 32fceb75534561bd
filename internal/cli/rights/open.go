package rights

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

type openOptions struct {
	*console.Console
	print bool // only print the link
}

func newOpen(con *console.Console) *cobra.Command {
	o := &openOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the page in a browser, signed in as you",
		Long: `Open the page of the daemon in a browser, signed in as you. The daemon makes a
link over its Unix socket, where it knows who you are. The link works once,
within a minute, and for nobody but you. You have the role on the page that you
have on the socket; "berth whoami" shows it.

Without a screen, the command prints the link, and the ssh command that leads a
browser on another machine to the page.`,
		Example: "  berth open\n  berth open --print",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.print, "print", false, "print the link and nothing else")
	return cmd
}

func (o *openOptions) run(ctx context.Context) error {
	if o.Remote() {
		return console.Usage("a link for signing in is made over the Unix socket of the daemon, and this is a daemon on another machine: run berth open there, or open its address in a browser and sign in with a token")
	}
	return o.With(ctx, func(c *client.Client) error { return o.open(ctx, c) })
}

// open makes a link, and shows the page or explains how to get there.
func (o *openOptions) open(ctx context.Context, c *client.Client) error {
	before, err := c.Sessions().List(ctx)
	if err != nil {
		return err
	}
	link, err := c.Sessions().Link(ctx)
	if err != nil {
		return err
	}
	if err := o.Answer(link, term.Clean(link.URL)); err != nil || o.print || o.JSON {
		return err
	}
	if o.HasBrowser() {
		done, err := o.Browse(link.URL)
		if err == nil {
			defer done()
			o.say("The page opens in your browser. If it does not, open the link yourself: it works once, within a minute.")
			return o.await(ctx, c, before, link)
		}
		o.say("%v. Open the link yourself.", err)
	}
	o.explain(link)
	return nil
}

func (o *openOptions) say(format string, args ...any) {
	fmt.Fprintln(o.Err, "berth: "+term.CleanLines(fmt.Sprintf(format, args...)))
}

// explain tells the user what to do with the link.
func (o *openOptions) explain(link api.SessionLink) {
	login, port := o.login()
	command, there := console.Tunnel(link.URL, login, port)
	o.say("The link signs you in, once, within a minute. Open it in a browser of this machine.")
	if command == "" {
		return
	}
	o.say("For a browser on another machine, run this there first:")
	fmt.Fprintln(o.Err, "  "+term.Clean(command))
	if there != link.URL {
		o.say("and open this link there; the browser warns you if the certificate is for another name:")
		fmt.Fprintln(o.Err, "  "+term.Clean(there))
		return
	}
	o.say("and open the link there. When the minute is over, berth open makes another one.")
}

// login returns the user and the host, and the port, by which ssh reaches this machine.
func (o *openOptions) login() (login, port string) {
	name := "USER"
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "HOST"
	}
	// The address that the person connected to surely leads here.
	if came := strings.Fields(o.Getenv("SSH_CONNECTION")); len(came) == 4 {
		host, port = came[2], came[3]
	}
	return name + "@" + host, port
}

// await waits until somebody has signed in with the link, or until the link has ended.
func (o *openOptions) await(ctx context.Context, c *client.Client, before api.Sessions, link api.SessionLink) error {
	interrupted := ctx
	ctx, cancel := context.WithTimeout(ctx, link.Expires.Sub(o.Now()))
	defer cancel()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := interrupted.Err(); err != nil {
				return err
			}
			o.say("Nobody has signed in with the link within its minute. berth open makes another one.")
			return nil
		case <-tick.C:
		}
		now, err := c.Sessions().List(ctx)
		if err != nil {
			continue // the daemon may be back before the minute is over
		}
		for _, s := range now.Sessions {
			if !slices.ContainsFunc(before.Sessions, func(old api.Session) bool { return old.ID == s.ID }) && s.Token == "" {
				o.say("You are signed in. The session ends when nobody has used it for twelve hours; berth sessions end %s ends it now.", s.ID)
				return nil
			}
		}
	}
}

func newSessions(con *console.Console) *cobra.Command {
	cmd := console.Show(con, &cobra.Command{
		Use:   "sessions",
		Short: "List who is signed in on the page, and end sessions",
		Long: `List your sessions on the page: the role of each, whether it was begun with a
link of "berth open" or with a token, when it began, when it was last used, and
when it ends. With the role admin, you see the sessions of everybody.`,
		Example: "  berth sessions\n  berth sessions end 34c9da2fcf7dd83d",
	}, listSessions, view.Sessions)
	cmd.AddCommand(console.Act(con, &cobra.Command{
		Use:   "end ID",
		Short: "End a session at once",
		Long: `End a session at once: whoever has the page open there has to sign in again.
With the role admin, you can end the session of anybody. Leases stay.`,
		Example:           "  berth sessions end 34c9da2fcf7dd83d",
		ValidArgsFunction: console.OfferEach(con, listSessions, func(all api.Sessions) []api.Session { return all.Sessions }, func(s api.Session) (name, about string) { return s.ID, s.User }),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "" {
				return console.Usage("the id of the session is empty: berth sessions names all of them")
			}
			return nil
		},
	}, func(ctx context.Context, c *client.Client, args []string) (api.Session, error) {
		return c.Sessions().End(ctx, args[0])
	}, view.SessionEnded))
	return cmd
}

func listSessions(c *client.Client, ctx context.Context) (api.Sessions, error) {
	return c.Sessions().List(ctx)
}
