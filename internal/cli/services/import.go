package services

import (
	"fmt"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/config/llamaswap"
	"github.com/berth-gpu/berth/internal/text/term"
)

func newImport(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "import",
		Short:   "Read the configuration of another program",
		Example: "  berth import llama-swap config.yaml > services.yaml",
	}
	cmd.AddCommand(newLlamaSwap(con))
	return cmd
}

// imported is what berth import answers.
type imported struct {
	Settings string         `json:"settings"`
	Notes    []importedNote `json:"notes"`
}

type importedNote struct {
	Line int    `json:"line,omitempty"`
	Name string `json:"name,omitempty"`
	Text string `json:"text"`
}

func newLlamaSwap(con *console.Console) *cobra.Command {
	var login string
	cmd := &cobra.Command{
		Use:   "llama-swap FILE",
		Short: "Turn a configuration of llama-swap into settings of berth",
		Long: `Read a configuration of llama-swap, and print sections for berth.yaml: a service
for each model, with its command, names, times and limits. Macros and variables
of the environment are put in; ${PORT} stays, because it is berth's word too.
What berth does in another way, or not at all, is told on standard error, line
by line. Nothing is changed, and no daemon is asked.

The file - means standard input. The programs run as you, or as --user.`,
		Example: `  berth import llama-swap config.yaml
  berth import llama-swap config.yaml --user llm > services.yaml
  berth import llama-swap - --json < config.yaml | jq -r .settings`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := con.Read(cmd.Context(), args[0], llamaswap.MostBytes+1)
			if err != nil {
				return console.Unread("read the configuration", args[0], err)
			}
			if !cmd.Flags().Changed("user") {
				login = caller()
			}
			settings, notes, err := llamaswap.Import(text, variables(con), login)
			if login == "" && err == nil {
				notes = append(notes, llamaswap.Note{Text: "a daemon of root needs a user for each service: give --user NAME"})
			}
			if !con.JSON {
				for _, n := range notes {
					fmt.Fprintln(con.Err, term.Clean(console.NameOf(args[0])+":"+n.String()))
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", console.NameOf(args[0]), err)
			}
			answer := imported{Settings: settings, Notes: []importedNote{}}
			for _, n := range notes {
				answer.Notes = append(answer.Notes, importedNote(n))
			}
			return con.Answer(answer, settings[:len(settings)-1])
		},
	}
	cmd.Flags().StringVar(&login, "user", "", "`NAME` of the user that the programs run as\n(default you, unless you are root)")
	return cmd
}

// variables returns a function that looks up variables of the environment.
func variables(con *console.Console) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		for _, pair := range con.Environ {
			if value, found := strings.CutPrefix(pair, name+"="); found {
				return value, true
			}
		}
		return "", false
	}
}

// caller returns the login name of the user, or "" for root.
func caller() string {
	me, err := user.Current()
	if err != nil || me.Uid == "0" {
		return ""
	}
	return me.Username
}
