package programs

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/process/child"
)

func TestCommands(t *testing.T) {
	file := &pipeline.File{Pipelines: []pipeline.Pipeline{{Name: "own", Command: []string{"/bin/sh", "-e"}}, {Name: "none"}}}
	given := Command{Path: "/bin/sh", Args: []string{"sh", "-c", "true"}}
	got, err := Commands(file, given.Args, "/bin")
	if diff := cmp.Diff(map[string]Command{"own": given, "none": given}, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if missing := (*NoCommandError)(nil); !errors.As(second(Commands(file, nil, "/bin")), &missing) || missing.Pipeline != "none" {
		t.Errorf("the pipeline without a command is %+v", missing)
	}
	if program := (*child.ProgramError)(nil); !errors.As(second(Commands(file, []string{"no-such-program"}, "/bin")), &program) {
		t.Error("a program that does not exist was found")
	}
}

func second(_ map[string]Command, err error) error { return err }

func TestCacheFolder(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{"HOME=/home/ann", "XDG_CACHE_HOME=/cache"}, "/cache/berth"},
		{[]string{"HOME=/home/ann", "XDG_CACHE_HOME=relative"}, "/home/ann/.cache/berth"},
		{[]string{"HOME=/home/ann"}, "/home/ann/.cache/berth"},
		{[]string{"HOME="}, ""},
		{nil, ""},
	} {
		if got := cacheFolder(c.environ); got != c.want {
			t.Errorf("%q: %q, want %q", c.environ, got, c.want)
		}
	}
}
