package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// The usage line of a command says how many arguments it takes.
func TestACommandTakesTheArgumentsOfItsUsageLine(t *testing.T) {
	for use, taken := range map[string][]int{
		"alerts":                                  {0},
		"adopt --pid PID":                         {0},
		"report [flags]":                          {0},
		"release [USER/]ID":                       {1},
		"create NAME --role ROLE":                 {1},
		"resize [USER/]ID MEMORY":                 {2},
		"pace [USER/]ID SHARE|off":                {2},
		"explain [[USER/]ID]":                     {0, 1},
		"deallocate SERVICE [GPU]":                {1, 2},
		"hold ID...":                              {1, 2, 3, 4},
		"cancel [USER/]ID...":                     {1, 2, 3, 4},
		"set FIELD=VALUE...":                      {1, 2, 3, 4},
		"status [GPU] (with --watch)":             {0, 1, 2},
		"job ID (with --watch)":                   {1, 2},
		"parent (with others below, and no work)": {0, 1, 2, 3, 4},
	} {
		name, with, _ := strings.Cut(use, " (")
		cmd := &cobra.Command{Use: name, RunE: func(*cobra.Command, []string) error { return nil }}
		if strings.HasPrefix(with, "with --watch") {
			WatchFlag(cmd, new(time.Duration))
		}
		if name == "parent" {
			cmd.RunE = nil
		}
		prepared(cmd)
		var takes []int
		for n := range 5 {
			if cmd.ValidateArgs(strings.Fields(strings.Repeat("x ", n))) == nil {
				takes = append(takes, n)
			}
		}
		if fmt.Sprint(takes) != fmt.Sprint(taken) {
			t.Errorf("%s takes %v arguments, want %v", use, takes, taken)
		}
	}
}

// The interval of --watch is no argument, unless it stands where the command needs one.
func TestTheIntervalOfWatchIsNoArgument(t *testing.T) {
	for line, want := range map[string]string{
		"2s --watch":          "[2s] every 1s",
		"train 2s --watch":    "[train] every 2s",
		"train --watch 500ms": "[train] every 500ms",
		"train 2s":            "[train 2s] every 0s",
		"train ben --watch":   "[train ben] every 1s",
	} {
		var watch time.Duration
		got := ""
		cmd := &cobra.Command{Use: "job ID", RunE: func(_ *cobra.Command, args []string) error {
			got = fmt.Sprint(args, " every ", watch)
			return nil
		}}
		WatchFlag(cmd, &watch)
		cmd.SetArgs(strings.Fields(line))
		if err := cmd.Execute(); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", line, got, err, want)
		}
	}
}
