package console

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-gpu/berth/internal/text/words"
)

// Mistake turns what the framework says about a wrong command line into what is missing,
// left over or unknown, and adds the next step. It returns any other error as it is. cmd is
// the command that the framework found.
func Mistake(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	if found := strayWord().FindStringSubmatch(err.Error()); found != nil {
		return Unknown(cmd, found[1])
	}
	if wrongCount().MatchString(err.Error()) {
		return miscounted(cmd, cmd.Flags().Args())
	}
	var hinted interface{ Hint() string }
	err, flag := flagMistake(cmd.Flags(), err)
	said := (*usageError)(nil)
	if !errors.As(err, &said) || errors.As(err, &hinted) {
		return err
	}
	if line := exampleOf(cmd, flag); line != "" {
		return Hinted(err, "for example: "+line)
	}
	if others := having(cmd, flag); len(others) > 0 {
		return Hinted(err, words.And(others)+" "+words.Form(len(others), "has", "have")+" it; see "+cmd.CommandPath()+" --help")
	}
	return Hinted(err, "see "+cmd.CommandPath()+" --help")
}

var (
	strayWord  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unknown command "([^"]+)" for "`) })
	wrongCount = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(accepts|requires) .* arg\(s\)`) })
)

// FlagMistake turns what the framework says about a wrong flag into a sentence with the
// next step. It returns any other error as it is.
func FlagMistake(flags *pflag.FlagSet, err error) error {
	err, _ = flagMistake(flags, err)
	return err
}

// flagMistake returns also the name of the flag that was given or meant, if there is one.
func flagMistake(flags *pflag.FlagSet, err error) (said error, flag string) {
	unknown, bare := (*pflag.NotExistError)(nil), (*pflag.ValueRequiredError)(nil)
	wrong, syntax := (*pflag.InvalidValueError)(nil), (*pflag.InvalidSyntaxError)(nil)
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(flags, unknown)
	case errors.As(err, &bare):
		return Usage("--%s needs a value: write --%[1]s %s", bare.GetFlag().Name, valueName(bare.GetFlag())), bare.GetFlag().Name
	case errors.As(err, &wrong):
		return Usage("--%s: %s", wrong.GetFlag().Name, wrongValue(wrong)), wrong.GetFlag().Name
	case errors.As(err, &syntax):
		return Usage("%q is no flag: write --NAME, or --NAME=VALUE", syntax.GetSpecifiedFlag()), ""
	}
	return err, ""
}

// unknownFlag suggests the flag that was probably meant.
func unknownFlag(flags *pflag.FlagSet, unknown *pflag.NotExistError) (said error, flag string) {
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return Usage("there is no flag -%s: almost all flags are words after two dashes, as in --json", name), ""
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near, ok := words.Nearest(name, names); ok {
		return Usage("there is no flag --%s: did you mean --%s?", name, near), near
	}
	return Usage("there is no flag --%s here", name), name
}

// having returns the other commands that have a flag of their own with this name, if
// there are only a few.
func having(cmd *cobra.Command, flag string) (paths []string) {
	const few = 4
	if flag == "" || cmd.Flags().Lookup(flag) != nil {
		return nil
	}
	for below := range commands(cmd.Root()) {
		if below.IsAvailableCommand() && below.LocalNonPersistentFlags().Lookup(flag) != nil {
			paths = append(paths, below.CommandPath())
		}
	}
	if len(paths) > few {
		return nil
	}
	return paths
}

// commands yields a command and all below it.
func commands(cmd *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		if !yield(cmd) {
			return
		}
		for _, below := range cmd.Commands() {
			for one := range commands(below) {
				if !yield(one) {
					return
				}
			}
		}
	}
}

// valueName returns the name of the value of a flag, as the help shows it.
func valueName(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return strings.ToUpper(name)
}

// wrongValue says what a flag takes instead of a value that it does not take.
func wrongValue(wrong *pflag.InvalidValueError) string {
	f, given := wrong.GetFlag(), wrong.GetValue()
	switch f.Value.Type() {
	case "bool":
		if strings.HasPrefix(wrong.Unwrap().Error(), "strconv.") {
			return fmt.Sprintf("write --%s or --%[1]s=false, not %q", f.Name, given)
		}
	case "int", "int64", "uint64", "uint":
		return fmt.Sprintf("%q is not a whole number: write one, as in --%s 2", given, f.Name)
	case "float64":
		return fmt.Sprintf("%q is not a number: write one, as in --%s 1.5", given, f.Name)
	case "duration":
		return fmt.Sprintf("%q is not a length of time: write it like 500ms, 2s or 1m", given)
	case "stringSlice":
		return fmt.Sprintf("%q is not a list: write values with commas between them, and quotes around none or all", given)
	}
	return wrong.Unwrap().Error()
}

// Unknown returns the error for a word that cmd does not know: the name of a command below
// cmd, or an argument that is left over.
func Unknown(cmd *cobra.Command, word string) error {
	var names []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	switch near, ok := words.Nearest(word, names); {
	case len(names) == 0:
		return miscounted(cmd, []string{word})
	case ok:
		return Hinted(Usage("%s has no command %q", cmd.CommandPath(), word), "did you mean "+cmd.CommandPath()+" "+near+"?")
	case cmd.HasParent():
		hint := "it has " + words.And(names) + ": see " + cmd.CommandPath() + " --help"
		if slices.Contains(strings.Split(strings.ReplaceAll(cmd.Example, "  ", ""), "\n"), cmd.CommandPath()) { // it does something by itself
			hint = "write " + cmd.CommandPath() + " alone, or with " + words.Or(names) + ": see " + cmd.CommandPath() + " --help"
		}
		return Hinted(Usage("%s has no command %q", cmd.CommandPath(), word), hint)
	}
	return Hinted(Usage("%s has no command %q", cmd.CommandPath(), word), "see "+cmd.CommandPath()+" --help")
}

// miscounted says which arguments are missing, or which one is left over.
func miscounted(cmd *cobra.Command, args []string) error {
	required, most := arguments(cmd)
	var err error
	switch path := cmd.CommandPath(); {
	case len(args) == 0:
		err = Usage("%s needs %s", path, words.And(required))
	case len(args) < len(required):
		err = Usage("%s needs %s after %s", path, words.And(required[len(args):]), words.Shell(args[len(args)-1]))
	case most == 0:
		err = Usage("%s takes no argument, and %s is one", path, words.Shell(args[0]))
	default:
		err = Usage("%s takes %s, and %s is left over", path, words.Count(most, "argument"), words.Shell(args[min(most, len(args)-1)]))
	}
	return Hinted(err, "for example: "+example(cmd))
}

// arguments returns the arguments that a command needs, as its usage line names them, and
// the number that it takes at most.
func arguments(cmd *cobra.Command) (required []string, most int) {
	words := strings.Fields(cmd.Use)[1:]
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "-"), i > 0 && strings.HasPrefix(words[i-1], "--"), word == "[flags]":
		case strings.HasPrefix(word, "[") && strings.HasSuffix(word, "]"):
			most++
		default:
			required = append(required, strings.TrimSuffix(word[strings.LastIndexByte(word, ']')+1:], "..."))
			most++
		}
	}
	return required, most
}

// example returns the first example of a command.
func example(cmd *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	return line
}

// exampleOf returns the first example of a command that has a flag.
func exampleOf(cmd *cobra.Command, flag string) string {
	for line := range strings.Lines(cmd.Example) {
		if flag != "" && slices.ContainsFunc(strings.Fields(line), func(word string) bool {
			return word == "--"+flag || strings.HasPrefix(word, "--"+flag+"=")
		}) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Near adds to an error about an unknown name which of the known names was probably
// meant, or else the next step.
func Near(err error, name string, known []string, otherwise string) error {
	return Hinted(err, words.Suggest(name, slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" }), otherwise))
}
