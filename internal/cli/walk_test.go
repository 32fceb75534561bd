package cli

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-gpu/berth/internal/cli/console"
)

// commands returns all commands that people use.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			all = append(all, commands(below)...)
		}
	}
	return all
}

// say runs a command line that must be wrong, in a world without a daemon, and returns
// what it says.
func say(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	env := Env{Env: console.Env{
		In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: func() time.Time { return time.Unix(0, 0) },
		Terminal: func() (int, bool) { return 80, true },
	}}
	if code := Run(context.Background(), env, append([]string{"--socket", "/nonexistent/s"}, args...)); code != 2 {
		t.Errorf("berth %s: exit code %d: %s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return errs.String()
}

// misspelt returns a word with two letters in the middle exchanged, or without its last.
func misspelt(word string) string {
	for at := len(word) / 2; at < len(word); at++ {
		if at > 0 && word[at] != word[at-1] {
			return word[:at-1] + word[at:at+1] + word[at-1:at] + word[at+1:]
		}
	}
	return word[:len(word)-1]
}

// A misspelt command, or a misspelt flag of any command, is answered with the right one.
func TestMisspeltCommandsAndFlags(t *testing.T) {
	for _, cmd := range commands(New(Env{})) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if at := len(path) - 1; at >= 0 {
			wrong := append(append([]string(nil), path[:at]...), misspelt(path[at]))
			if said := say(t, wrong...); !strings.Contains(said, "did you mean "+cmd.CommandPath()+"?") {
				t.Errorf("berth %s: %s", strings.Join(wrong, " "), said)
			}
		}
		cmd.InitDefaultHelpFlag()
		check := func(f *pflag.Flag) {
			if len(f.Name) < 3 || f.Hidden || foreignFlags["--"+misspelt(f.Name)] != "" {
				return
			}
			args := append(append([]string(nil), path...), "--"+misspelt(f.Name))
			if said := say(t, args...); !strings.Contains(said, "did you mean --"+f.Name+"?") {
				t.Errorf("berth %s: %s", strings.Join(args, " "), said)
			}
		}
		cmd.LocalFlags().VisitAll(check)
		cmd.InheritedFlags().VisitAll(check)
	}
}

// A command that needs arguments names them, and shows an example of itself; every flag
// that needs a value says so.
func TestMissingArgumentsAndValues(t *testing.T) {
	needy := 0
	for _, cmd := range commands(New(Env{})) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if cmd.Args != nil && cmd.Args(cmd, nil) != nil {
			needy++
			if said := say(t, path...); !strings.Contains(said, cmd.CommandPath()+" ") || strings.Contains(said, "arg(s)") || !strings.Contains(said, "for example: "+cmd.CommandPath()) && !strings.Contains(said, "as in "+cmd.CommandPath()) {
				t.Errorf("%s: %s", cmd.CommandPath(), said)
			}
		}
		tooMany := strings.Fields(strings.Repeat("x ", 9))
		if cmd.Args != nil && cmd.Args(cmd, tooMany) != nil {
			if said := say(t, append(path, tooMany...)...); strings.Contains(said, "arg(s)") || !strings.Contains(said, "is left over") && !strings.Contains(said, "is one") && !strings.Contains(said, "has no command") && !strings.Contains(said, "after --") {
				t.Errorf("%s: %s", cmd.CommandPath(), said)
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal != "" {
				return
			}
			if said := say(t, append(path, "--"+f.Name)...); !strings.Contains(said, "--"+f.Name+" needs a value: write --"+f.Name) {
				t.Errorf("%s --%s: %s", cmd.CommandPath(), f.Name, said)
			}
		})
	}
	if needy < 20 {
		t.Errorf("only %d commands need arguments", needy)
	}
}

// The advice about a decimal unit keeps the number and the size of the unit.
func TestDecimalAmountKeepsItsNumber(t *testing.T) {
	for text, want := range map[string]string{
		"10000MB": "berth: 10000MB is taken as 9.8 GiB: write 10000MiB, because",
		"1.5 gb":  "berth: 1.5 gb is taken as 1.5 GiB: write 1.5GiB, because",
		"2tB":     "berth: 2tB is taken as 2 TiB: write 2TiB, because",
	} {
		var errs bytes.Buffer
		con := new(console.Console)
		cmd, _, err := made(con).Find([]string{"allocate"})
		if err != nil {
			t.Fatal(err)
		}
		con.Err = &errs
		if err := cmd.ParseFlags([]string{"train", text}); err != nil {
			t.Fatal(err)
		}
		if con.Begin(cmd); !strings.HasPrefix(errs.String(), want) {
			t.Errorf("%s: it says %q", text, errs.String())
		}
	}
}

// Every command that takes memory says that 4GB is taken as 4 GiB.
func TestDecimalAmountsAreTold(t *testing.T) {
	told := func(cmd *cobra.Command, con *console.Console, args ...string) {
		t.Helper()
		var errs bytes.Buffer
		con.Err = &errs
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if con.Begin(cmd); errs.String() != "berth: 4GB is taken as 4 GiB: write 4GiB, because units of memory are powers of 1024 here\n" {
			t.Errorf("%s %s: %q", cmd.CommandPath(), strings.Join(args, " "), errs.String())
		}
	}
	seen := map[string]bool{}
	for _, each := range commands(New(Env{})) {
		each.LocalFlags().VisitAll(func(f *pflag.Flag) {
			con := new(console.Console)
			cmd, _, err := made(con).Find(strings.Fields(each.CommandPath())[1:])
			if err != nil {
				t.Fatal(err)
			}
			switch takes := f.Value.Type(); {
			case f.Name == "where":
				told(cmd, con, "--where", "vendor=nvidia,memory>=4GB")
			case takes == "memory" || strings.Contains(f.Name, "memory") && f.NoOptDefVal == "":
				told(cmd, con, "--"+f.Name, "4GB")
				seen[cmd.Name()] = true
			}
		})
		if strings.Contains(each.Use, " MEMORY") || strings.Contains(each.Use, "FIELD=VALUE") {
			con := new(console.Console)
			cmd, _, _ := made(con).Find(strings.Fields(each.CommandPath())[1:])
			arg := "4GB"
			if strings.Contains(each.Use, "FIELD=VALUE") {
				arg = "services.a.max_memory_mb=4GB"
			}
			told(cmd, con, "train", arg)
			seen[cmd.Name()] = true
		}
	}
	for _, name := range []string{"allocate", "resize", "exec", "submit", "explain", "adopt", "run", "set"} {
		if !seen[name] {
			t.Errorf("%s takes memory, and was not looked at: %v", name, seen)
		}
	}
}

// made returns the tree of all commands.
func made(con *console.Console) *cobra.Command {
	root, _ := tree(Env{}, con, "")
	return root
}

// Each command is made by the words by which cobra would find it, and alone.
func TestTreeOfOneCommand(t *testing.T) {
	all := New(Env{}).Commands()
	for _, whole := range all {
		if whole.Name() == "help" {
			continue
		}
		for _, word := range append([]string{whole.Name()}, whole.Aliases...) {
			root, grow := tree(Env{}, new(console.Console), firstWord([]string{"--socket", "status", "--json", word, "--help"}))
			names := func() (names []string) {
				for _, cmd := range root.Commands() {
					names = append(names, cmd.Name())
				}
				return names
			}
			if got := names(); !slices.Equal(got, []string{whole.Name()}) {
				t.Errorf("%s: the tree has %v", word, got)
			}
			if grow(); len(slices.Compact(names())) < len(all) {
				t.Errorf("%s: the whole tree has only %v", word, names())
			}
		}
	}
	for _, args := range [][]string{nil, {"help"}, {"--bogus", "status"}, {"nothing"}, {"--socket"}, {"__complete", "st"}} {
		if root, _ := tree(Env{}, new(console.Console), firstWord(args)); len(root.Commands()) < len(all) {
			t.Errorf("%q: the tree has only %d commands", args, len(root.Commands()))
		}
	}
}
