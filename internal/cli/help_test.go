package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/internal/cli/topics"
	"github.com/berth-gpu/berth/internal/text/manual"
	"github.com/berth-gpu/berth/internal/text/synonyms"
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

// Every word that help knows leads to commands and topics that exist, and is neither: help
// would show that one. What berth lacks is said in flags that exist.
func TestMeanings(t *testing.T) {
	m, err := manual.Read(docs.Pages())
	if err != nil {
		t.Fatal(err)
	}
	root := New(Env{})
	root.InitDefaultHelpCmd()
	exists := func(name string) bool {
		cmd, _, err := root.Find([]string{name})
		return err == nil && cmd != root && cmd.IsAvailableCommand()
	}
	flag := regexp.MustCompile(`berth ([a-z]+)(?: (--[a-z]+))?`)
	for word, one := range synonyms.All() {
		_, nearest := synonyms.Nearest[word] // these two are for wrong command lines too
		if _, instead := synonyms.Instead[word]; (exists(word) || m.Topic(word) != nil) && !nearest && !instead {
			t.Errorf("%q is a command or a topic", word)
		}
		for _, name := range one.See {
			if !exists(name) && m.Topic(name) == nil {
				t.Errorf("%q leads to %s, which is no command and no topic", word, name)
			}
		}
		for _, said := range flag.FindAllStringSubmatch(one.Answer, -1) {
			cmd, _, err := root.Find(said[1:2])
			if err == nil && cmd != root && said[2] != "" && cmd.Flag(strings.TrimPrefix(said[2], "--")) == nil {
				t.Errorf("%q: there is no %s", one.Answer, said[0])
			}
		}
	}
	for asked, want := range map[string]string{
		"prometheus": "monitoring", "Slack": "wait", "uninstall": "install", "tmux": "logs", "reservations": "submit", "budget": "quota",
		"out  of memory": "troubleshooting", "sbatch": "shared-machine", "GPUManager": "earlier-names", "ps": "jobs", "time limit": "submit",
	} {
		if q := question(root, asked); len(q.See) == 0 || q.See[0] != want {
			t.Errorf("berth help %s leads to %v, not first to %s", asked, q.See, want)
		}
	}
	for asked, lacks := range map[string]bool{"reserve": true, "attach": true, "email": true, "budgets": true, "sso": true, "squeue": false, "nonsense": false} {
		if q := question(root, asked); lacks != (q.Answer != "") {
			t.Errorf("berth help %s: %q", asked, q.Answer)
		}
	}
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
			t.Errorf("%s names the topic %q, which docs/ has not: enter the command in package synonyms", cmd.CommandPath(), topic)
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
	for topic, commands := range synonyms.Commands() {
		for _, name := range commands {
			if !listed[name] {
				t.Errorf("the topic %s has %s, which is no command", topic, name)
			}
		}
	}
	if m.Topic(topics.List) != nil {
		t.Errorf("%s is the list, and a topic", topics.List)
	}
}
