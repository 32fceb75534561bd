package jobs

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSplitWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"  --memory 8GiB\t--time 4h ":       "--memory|8GiB|--time|4h",
		`--where 'name~H200,memory>=40GiB'`: "--where|name~H200,memory>=40GiB",
		`--comment "ask Ada" --hold`:        "--comment|ask Ada|--hold",
		`--comment=ask\ Ada`:                "--comment=ask Ada",
		`--env A="it's" --env B='"'`:        `--env|A=it's|--env|B="`,
		`--name '' x`:                       "--name||x",
		"--hold # until Monday":             "--hold",
		"--name a#b":                        "--name|a#b",
		`'\n'`:                              `\n`,
		`--comment "C:\new \"x\" \\ \$1"`:   `--comment|C:\new "x" \ $1`,
	} {
		if got, err := splitWords(text); err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`'a`, `"a`, `a\`} {
		if got, err := splitWords(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestReadFlags(t *testing.T) {
	for _, c := range []struct {
		name, text, want, wrong string
		given                   []string
	}{
		{name: "none", text: "#!/bin/sh\necho\n", want: " []"},
		{name: "several lines", text: "#!/bin/sh\n#BERTH --name a --param x=1\n\n# why\n  #BERTH\t--param y=2 # two\necho\n", want: "a [x=1 y=2]"},
		{name: "the command line wins", text: "#!/bin/sh\n#BERTH --name a --param x=1\n", given: []string{"--name", "b"}, want: "b [x=1]"},
		{name: "it replaces lists", text: "#!/bin/sh\n#BERTH --name a --param x=1\n", given: []string{"--param", "z=3"}, want: "a [z=3]"},
		{name: "another word", text: "#!/bin/sh\n#BERTHA --name a\n#berth --name b\n", want: " []"},
		{name: "another word after a command", text: "#!/bin/sh\necho\n#BERTH_GPUS is set\n", want: " []"},
		{name: "windows", text: "#!/bin/sh\r\n#BERTH --name a\r\n", want: "a []"},
		{name: "after a command", text: "#!/bin/sh\necho\n#BERTH --name a\n", wrong: "line 3: #BERTH lines must come before the first command"},
		{name: "an unknown flag", text: "#!/bin/sh\n#BERTH --mem 8\n", wrong: "line 2: there is no flag --mem here"},
		{name: "a stray word", text: "#!/bin/sh\n#BERTH --name a python train.py\n", wrong: `line 2: "python" is no flag: #BERTH lines have flags only, and the commands follow below`},
		{name: "an open quote", text: "#!/bin/sh\n#BERTH --name 'a\n", wrong: "line 2: a quote ' has no end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := pflag.NewFlagSet("submit", pflag.ContinueOnError)
			name := flags.String("name", "", "")
			params := flags.StringArray("param", nil, "")
			if err := flags.Parse(c.given); err != nil {
				t.Fatal(err)
			}
			err := readFlags([]byte(c.text), flags)
			if c.wrong != "" {
				if err == nil || err.Error() != c.wrong {
					t.Fatalf("error %v, want %s", err, c.wrong)
				}
				return
			}
			if got := *name + " [" + strings.Join(*params, " ") + "]"; err != nil || got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestScriptCommand(t *testing.T) {
	long := "#!/bin/sh\n" + strings.Repeat("# x\n", longestScript/4)
	for _, c := range []struct {
		text string
		want []string // nil if it is refused
	}{
		{"#!/bin/sh\necho\n", []string{"/bin/sh", "-c", "#!/bin/sh\necho\n", "/w/run", "a", "-b"}},
		{"#!/bin/bash -e\necho\n", []string{"/bin/bash", "-e", "-c", "#!/bin/bash -e\necho\n", "/w/run", "a", "-b"}},
		{"#!/usr/bin/env bash\necho\n", []string{"/usr/bin/env", "bash", "-c", "#!/usr/bin/env bash\necho\n", "/w/run", "a", "-b"}},
		{"#!/usr/bin/env python3\nprint()\n", []string{"/usr/bin/env", "python3", "/w/run", "a", "-b"}},
		{"\x7fELF\x02", []string{"/w/run", "a", "-b"}},
		{"echo\n", nil}, {"#!\necho\n", nil}, {"", nil}, {long, nil}, {"#!/bin/sh\n\x00", nil},
	} {
		got, err := scriptCommand("/w/run", []byte(c.text), []string{"a", "-b"})
		if (err != nil) != (c.want == nil) || !slices.Equal(got, c.want) {
			t.Errorf("%.30q: %.80q, %v; want %.80q", c.text, got, err, c.want)
		}
	}
}
