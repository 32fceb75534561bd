// Command berth-serve is the whole GPU resource manager: the daemon, and every command.
//
// People type berth, a program that starts in less time because the daemon is not in it,
// and that becomes this one if a command needs the daemon's code.
//
// The number of cores that it may use does not change while it runs: following that would
// wake the idle daemon every second.
//
//go:debug updatemaxprocs=0
package main

import (
	"context"
	"os"
	"syscall"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/docs"
	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/cli/agents"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/jobs"
	"github.com/berth-gpu/berth/internal/cli/top"
	"github.com/berth-gpu/berth/internal/cli/topics"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/daemon"
	"github.com/berth-gpu/berth/internal/process/minder"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	if len(os.Args) == 2 && os.Args[1] == guardian {
		guard()
	}
	if len(os.Args) == 2 && os.Args[1] == proveCommand {
		os.Exit(prove())
	}
	if len(os.Args) > 2 && os.Args[1] == minder.Verb {
		os.Exit(jobs.Mind(os.Args[2:]))
	}
	if len(os.Args) == 2 && os.Args[1] == minder.ReaderVerb {
		os.Exit(readLog())
	}
	ctx, stop := cli.UntilSignal(os.Interrupt, syscall.SIGTERM)
	env := cli.ThisMachine(version)
	env.Become, env.Top, env.Agents, env.Topics = cli.Become(stop), top.Run, agents.Serve, topics.In(docs.Pages())
	env.Serve, env.Front, env.Local, env.Probe = serve, takeRequests, local, daemon.Probe
	env.Settings = func(file string) (*config.Settings, error) { return daemon.Load(sources(file, nil)) }
	env.Checker = func() (console.Checker, error) { return daemon.Check, nil }
	code := cli.Run(ctx, env, os.Args[1:])
	_ = stop()
	os.Exit(code)
}

func sources(file string, flags map[string]string) daemon.Sources {
	return daemon.Sources{
		File: file, Environ: os.Environ(), Getenv: os.Getenv, Flags: flags, Root: os.Geteuid() == 0,
	}
}

// local returns a client that looks at the devices of this machine without a daemon.
func local(ctx context.Context, devices string) (*client.Client, func(), error) {
	flags := map[string]string{}
	if devices != "" {
		flags["daemon.devices"] = devices
	}
	settings, err := daemon.Load(sources("", flags))
	if err != nil {
		return nil, nil, err
	}
	return daemon.Local(ctx, settings, version)
}
