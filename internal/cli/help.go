package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/synonyms"
)

// Topics shows a topic of the manual, or the list of topics, or what answers a question. The
// caller passes it in: the pages would make every program larger that links them.
type Topics func(con *console.Console, asked console.Question) error

// TopicOf returns the topic that tells more about a command; empty if none is listed.
func TopicOf(cmd *cobra.Command) string {
	for ; cmd != nil; cmd = cmd.Parent() {
		if topic := synonyms.TopicOf(strings.TrimPrefix(cmd.CommandPath(), "berth ")); topic != "" {
			return topic
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

// question returns what somebody asks the manual, with what berth has for it.
func question(root *cobra.Command, asked string) console.Question {
	m, _ := synonyms.Of(asked)
	q := console.Question{Words: asked, Commands: map[string]string{}, See: m.See, Answer: m.Answer}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			q.Commands[cmd.Name()] = cmd.Short
		}
	}
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
	for topic := range synonyms.Commands() {
		names = append(names, topic)
	}
	return names
}
