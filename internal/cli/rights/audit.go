package rights

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/desk/doctor"
)

const (
	usualEntries = 100         // shown by default
	entriesAPage = 2000        // returned by the daemon at once
	auditPause   = time.Second // between two questions for new entries
)

type auditOptions struct {
	*console.Console
	since        string
	users, verbs []string
	limit        int
	follow       bool
}

func newAudit(con *console.Console) *cobra.Command {
	o := &auditOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show acts of authority and refusals",
		Long: `Show who did what to the things of others, who changed settings, roles and
tokens, which processes berth ended, and who was refused: the newest 100
entries, oldest first. With --since, show all of them after that time. You need
the role admin. berth help access says what is in the log.`,
		Example: `  berth audit
  berth audit --since 7d --user alice
  berth audit --what release --json | jq -r .object.id
  berth audit --follow
  berth audit verify`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.Flags().Changed("limit")) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.since, "since", "", "show entries after this `TIME`, or of the last 7d")
	flags.StringSliceVar(&o.users, "user", nil, "show what this `USER` did, and what was done to their\nthings, or of several")
	flags.StringSliceVar(&o.verbs, "what", nil, "show only this `VERB`, as in release, or several")
	flags.IntVar(&o.limit, "limit", usualEntries, "show the newest `N` entries")
	flags.BoolVarP(&o.follow, "follow", "f", false, "wait for new entries until interrupted")
	console.CompleteFlag(cmd, "user", con.Users())
	console.CompleteWith(cmd, "what", verbs())
	cmd.AddCommand(newAuditVerify(con))
	return cmd
}

// verbs returns the verbs of entries.
func verbs() (names []string) {
	for _, v := range access.Verbs() {
		names = append(names, v.String())
	}
	return names
}

func (o *auditOptions) run(ctx context.Context, limited bool) error {
	since, err := console.Moment(o.since, o.Now())
	switch {
	case err != nil:
		return console.Usage("--since %v", err)
	case o.limit < 1 || o.limit > entriesAPage:
		return console.Usage("--limit must be between 1 and %d, not %d; to see more, give --since", entriesAPage, o.limit)
	case limited && o.since != "":
		return console.Usage("give --since or --limit, not both")
	}
	for _, verb := range o.verbs {
		if near, ok := words.Nearest(verb, verbs()); ok && near != verb && !slices.Contains(verbs(), verb) {
			return console.Hinted(console.Usage("there is no verb %q", verb), "did you mean "+near+"?")
		}
	}
	query := client.AuditQuery{User: strings.Join(o.users, ","), What: strings.Join(o.verbs, ","), Since: since, Limit: o.limit}
	if o.since != "" {
		query.Limit, query.Page = entriesAPage, true
	}
	return o.With(ctx, func(c *client.Client) error { return o.show(ctx, c, query) })
}

// show prints the entries that a query selects, page after page. With --follow, it
// waits for more until it is interrupted, which is not a failure.
func (o *auditOptions) show(ctx context.Context, c *client.Client, query client.AuditQuery) error {
	tick := time.NewTicker(auditPause)
	defer tick.Stop()
	last := uint64(0)
	for {
		page, err := c.Audit(ctx, query)
		switch {
		case err == nil:
			o.Back()
		case o.follow && ctx.Err() != nil:
			return nil
		case !o.follow || !o.Lost(err):
			return err
		}
		for _, e := range page.Entries {
			if err := console.AnswerOne(o.Console, e, view.AuditEntry); err != nil {
				return err
			}
			last = e.Seq
		}
		if err == nil {
			query.After, query.Page, query.Limit = max(last, page.Next), true, entriesAPage
		}
		if page.Next != 0 {
			continue
		}
		if !o.follow && last == 0 && !o.JSON {
			return o.Print("No entry matches.")
		}
		if !o.follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func newAuditVerify(con *console.Console) *cobra.Command {
	return console.OnState(con, &cobra.Command{
		Use:   "verify",
		Short: "Check that no entry of the audit log is missing",
		Long: `Check that no entry of the audit log is missing, changed or out of order. Each
entry carries the hash of the one before, and the journal names the newest one,
so that a log whose end was cut off is noticed too. The exit code is 1 if
something is wrong.

The command reads the files in the state folder of the daemon, so you need to be
root or the user that runs the daemon. The daemon may run.`,
		Example: "  berth audit verify\n  berth audit verify --state-dir /var/lib/berth --json",
	}, func(_ *cobra.Command, state string, _ []string) error {
		verdict, err := doctor.VerifyAudit(state)
		if err != nil {
			return err
		}
		return con.Verdict(verdict.Sound, verdict, view.AuditVerdict(verdict, con.Screen())...)
	})
}
