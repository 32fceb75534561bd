package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// Topics shows a topic of the manual, or the list of topics, or what answers a question. The
// caller passes it in: the pages would make every program larger that links them.
type Topics func(con *console.Console, asked console.Question) error

// topicsByCommand says which topic tells more about each command, in lines of the topic
// and its commands. A command below another one has the topic of that one unless it is
// listed with it.
const topicsByCommand = `
cli               berth, completion, help, version
looking           status, top, open, report
events-and-hooks  events, hooks
past              query, export
simulator         record
running-jobs      submit, jobs, job, logs, wait, cancel, redo, hold, unhold, priority
running-services  services, start, stop, restart, move
models            import
leasing           allocate, deallocate, exec, become, leases, release, renew, resize, adopt
troubleshooting   explain, doctor
sharing           pace, park, resume, optimize, loop
pipelines         plan
batch             run, work
access            whoami, quota, token, sessions, audit
assistants        mcp
alerting          alerts
health            check, drain, undrain
configuration     config
journal-format    journal
install           serve
operate           backup, restore, state
running-services  front
`

// TopicOf returns the topic that tells more about a command; empty if none is listed.
func TopicOf(cmd *cobra.Command) string {
	for ; cmd != nil; cmd = cmd.Parent() {
		for line := range strings.Lines(topicsByCommand) {
			topic, commands, _ := strings.Cut(strings.TrimSpace(line), " ")
			for name := range strings.SplitSeq(commands, ",") {
				if strings.TrimSpace(name) == strings.TrimPrefix(cmd.CommandPath(), "berth ") {
					return topic
				}
			}
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() {
			return "" // that of the root would say too little
		}
	}
	return ""
}

// nameTopics ends the help of every command with the topic that tells more.
func nameTopics(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		if !cmd.HasParent() {
			fmt.Fprintln(cmd.OutOrStdout(), `Use "berth help topics" for a list of the pages of the manual.`)
			return
		}
		if topic := TopicOf(cmd); topic != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "\nMore about it: berth help %s\n", topic)
		}
	})
}

func newHelp(con *console.Console, show Topics) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Show a command, or a page of the manual",
		Long: `Show how a command is used, or a page of the manual: on a terminal through
PAGER, or else less. Everything is in the program; nothing is fetched.

"berth help topics" lists the pages. Other words, such as prometheus, sbatch or
out of memory, get the commands and pages that tell of them.`,
		Example: "  berth help topics\n  berth help troubleshooting\n  berth help exec\n  berth help \"out of memory\"",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			offers := namesOf(found)
			if len(args) == 0 {
				offers = append(offers, topicNames()...)
			}
			return offers, cobra.ShellCompDirectiveNoFileComp
		},
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			found, rest, err := root.Find(args)
			switch {
			case len(args) > 0 && found == root:
				return show(con, question(root, strings.Join(args, " ")))
			case err != nil:
				return console.Mistake(found, err)
			case len(rest) > 0:
				return console.Unknown(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	}
}

// question returns what somebody asks the manual, with what meanings, otherwise and foreign
// know of it.
func question(root *cobra.Command, asked string) console.Question {
	q := console.Question{Words: asked, Commands: map[string]string{}}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			q.Commands[cmd.Name()] = cmd.Short
		}
	}
	q.See = foreign[strings.ToLower(asked)]
	m, known := meaningOf(asked)
	if known {
		q.See = strings.Fields(m.see)
	}
	q.Answer = cmp.Or(otherwise[strings.ToLower(asked)], m.answer)
	return q
}

// namesOf returns the names of the commands below one that people use.
func namesOf(cmd *cobra.Command) (names []string) {
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	return names
}

// topicNames returns the topics that commands name.
func topicNames() (names []string) {
	names = []string{"topics"}
	for line := range strings.Lines(strings.TrimSpace(topicsByCommand)) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}
