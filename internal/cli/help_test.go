package cli

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/spf13/cobra"
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
