package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/internal/cli/topics"
	"github.com/berth-gpu/berth/internal/text/manual"
	"github.com/berth-gpu/berth/internal/text/term"
)

// TestHelp holds every command to what a newcomer needs, at 80 columns.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "/"), func(t *testing.T) {
			if cmd.Short == "" || cmd.Example == "" {
				t.Error("no short description, or no example")
			}
			if cmd.InheritedFlags().Lookup("json") == nil && cmd.PersistentFlags().Lookup("json") == nil {
				t.Error("no --json")
			}
			var b strings.Builder
			cmd.SetOut(&b)
			if err := cmd.Help(); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if term.Columns(strings.TrimRight(line, "\n")) > 80 {
					t.Errorf("more than 80 columns: %s", line)
				}
			}
		})
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	check(New(Env{}))
}

// Every command names a topic that tells more, every topic that is named exists, and no
// topic has the name of a command: berth help would show only one of the two.
func TestTopics(t *testing.T) {
	m, err := manual.Read(docs.Pages())
	if err != nil {
		t.Fatal(err)
	}
	root := New(Env{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	listed := map[string]bool{}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		listed[strings.TrimPrefix(cmd.CommandPath(), "berth ")] = true
		topic := TopicOf(cmd)
		if m.Topic(topic) == nil {
			t.Errorf("%s names the topic %q, which docs/ has not: enter the command in topicsByCommand", cmd.CommandPath(), topic)
		}
		var b strings.Builder
		cmd.SetOut(&b)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		if want := "\nMore about it: berth help " + topic + "\n"; cmd.HasParent() && !strings.HasSuffix(b.String(), want) {
			t.Errorf("the help of %s does not end with %q", cmd.CommandPath(), want)
		}
		for _, name := range append([]string{cmd.Name()}, cmd.Aliases...) {
			if m.Topic(name) != nil && cmd.HasParent() && cmd.Parent() == root {
				t.Errorf("%s is a command and a topic: give the topic another name in package manual", name)
			}
		}
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	check(root)
	for line := range strings.Lines(strings.TrimSpace(topicsByCommand)) {
		_, commands, _ := strings.Cut(strings.TrimSpace(line), " ")
		for name := range strings.SplitSeq(commands, ",") {
			if !listed[strings.TrimSpace(name)] {
				t.Errorf("topicsByCommand has %s, which is no command", name)
			}
		}
	}
	if m.Topic(topics.List) != nil {
		t.Errorf("%s is the list, and a topic", topics.List)
	}
}
