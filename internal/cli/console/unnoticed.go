package console

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/text/term"
)

// ofBoth are the flags of berth that people write after a command by mistake. Programs may
// have them too.
var ofBoth = []string{"memory", "gpus", "slots", "time"}

// Unnoticed says on a terminal that flags of berth behind a command go to the command, if
// they were not given before it.
func (c *Console) Unnoticed(cmd *cobra.Command, command []string) {
	if c.ErrTerminal == nil || len(command) == 0 || filepath.Base(command[0]) == "berth" {
		return
	}
	if _, terminal := c.ErrTerminal(); !terminal {
		return
	}
	var said []string
	for _, word := range command[1:] {
		name, _, _ := strings.Cut(word, "=")
		flag := cmd.Flags().Lookup(strings.TrimPrefix(name, "--"))
		if !strings.HasPrefix(name, "--") || flag == nil || flag.Changed || !slices.Contains(ofBoth, flag.Name) || slices.Contains(said, name) {
			continue
		}
		said = append(said, name)
		fmt.Fprintf(c.Err, "berth: %s after the command goes to %s, and not to berth: write it before the command if berth should read it\n", name, term.Clean(filepath.Base(command[0])))
	}
}
