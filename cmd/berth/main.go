// Command berth provides every command of the GPU resource manager.
//
// The daemon is in another program, berth-serve, which is beside this one or in the PATH:
// if it were linked in, each command would wait for the initialization of packages that
// it never uses. If a command needs the daemon's code, as "berth serve" does, this
// process becomes that program, with the same arguments.
//
// A command needs no more than a core or two, so the runtime does not read how many its
// cgroup allows, which takes a tenth of a millisecond.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/jobs"
	"github.com/berth-gpu/berth/internal/cli/leasing"
	"github.com/berth-gpu/berth/internal/cli/upkeep"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/process/minder"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	if len(os.Args) > 2 && os.Args[1] == minder.Verb {
		os.Exit(jobs.Mind(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		runtime.GOMAXPROCS(1) // it does one thing after the other: to wake other threads takes a tenth of its time
	}
	ctx, stop := cli.UntilSignal(os.Interrupt, syscall.SIGTERM)
	env := cli.ThisMachine(version)
	become := cli.Become(stop)
	becomeWhole := func() error { return becomeWhole(become) }
	env.Become = become
	env.Serve = func(context.Context, upkeep.ServeOptions) error { return becomeWhole() }
	env.Front = func(context.Context, upkeep.FrontOptions) error { return becomeWhole() }
	env.Local = func(context.Context, string) (*client.Client, func(), error) { return nil, nil, becomeWhole() }
	env.Top = func(context.Context, *console.Console, console.Live) error { return becomeWhole() }
	env.Agents = func(context.Context, *console.Console, bool) error { return becomeWhole() }
	env.Topics = func(*console.Console, console.Question) error {
		return console.Hinted(becomeWhole(), "the manual is in that program; a daemon shows it too, at /help of its page")
	}
	env.Settings = func(string) (*config.Settings, error) { return nil, becomeWhole() }
	env.Checker = func() (console.Checker, error) { return nil, becomeWhole() }
	env.Probe = func(context.Context) []doctor.Finding {
		return []doctor.Finding{{Topic: "programs", Grade: doctor.Broken, Text: becomeWhole().Error(), Next: "install berth-serve beside berth"}}
	}
	code := cli.Run(ctx, env, os.Args[1:])
	_ = stop()
	os.Exit(code)
}

// whole is the program with the daemon in it.
const whole = "berth-serve"

// becomeWhole replaces this process with the program that holds the daemon. It returns
// only if that fails.
func becomeWhole(become leasing.Become) error {
	file, err := findWhole()
	if err != nil {
		return err
	}
	return become(file, os.Args, os.Environ())
}

// findWhole returns the path of that program. It looks beside this program first, because
// the two are built together.
func findWhole() (string, error) {
	self, err := os.Executable()
	if err == nil {
		if beside := filepath.Join(filepath.Dir(self), whole); isAnother(beside, self) {
			return beside, nil
		}
	}
	if found, err := exec.LookPath(whole); err == nil && isAnother(found, self) {
		return found, nil
	}
	return "", fmt.Errorf("cannot find the program %s, which holds the daemon: it is neither beside %s nor in the PATH; install it there", whole, self)
}

// isAnother reports whether a path is a program other than this one.
func isAnother(path, self string) bool {
	there, err := os.Stat(path)
	if err != nil || !there.Mode().IsRegular() || there.Mode()&0o111 == 0 {
		return false
	}
	here, err := os.Stat(self)
	return err != nil || !os.SameFile(here, there)
}
