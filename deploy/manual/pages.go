package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-gpu/berth/internal/cli"
)

// foot is what stands at the foot of every page.
type foot struct{ version, date string }

// pages returns the page of a command and of those below it, in the language of man, by
// the names of their files.
func pages(c *cobra.Command, f foot) map[string]string {
	found := map[string]string{fileOf(c): page(c, f)}
	for _, below := range c.Commands() {
		if below.Hidden {
			continue
		}
		for name, text := range pages(below, f) {
			found[name] = text
		}
	}
	return found
}

func fileOf(c *cobra.Command) string { return nameOf(c) + ".1" }

func nameOf(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func page(c *cobra.Command, f foot) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"%s\" \"berth %s\" \"berth\"\n", quoted(strings.ToUpper(nameOf(c))), quoted(f.date), quoted(f.version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", text(nameOf(c)), text(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", text(c.UseLine()))
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", lines(long))
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", lines(c.Example))
	}
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", text(strings.Join(relatives(c), ", ")))
	return b.String()
}

// relatives names the pages of the commands above and below, the topic that tells more, and
// where the rest is.
func relatives(c *cobra.Command) []string {
	var names []string
	if c.HasParent() {
		names = append(names, nameOf(c.Parent())+"(1)")
	}
	for _, below := range c.Commands() {
		if !below.Hidden {
			names = append(names, nameOf(below)+"(1)")
		}
	}
	if !c.HasParent() {
		names = append(names, "berth help topics")
	}
	return append(names, "berth help "+cli.TopicOf(c), "/usr/share/doc/berth")
}

func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", text(strings.TrimSpace(name+" "+kind)), text(usage))
	})
}

// lines escapes a text line by line.
func lines(s string) string {
	all := strings.Split(strings.Trim(s, "\n"), "\n")
	for i, line := range all {
		all[i] = text(line)
	}
	return strings.Join(all, "\n")
}

// text escapes what man would take for an instruction or for typography: words are often
// typed as they stand here.
func text(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return s
}

// quoted escapes a text between quotation marks.
func quoted(s string) string { return strings.ReplaceAll(text(s), `"`, `\(dq`) }
