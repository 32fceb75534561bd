package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// serveFlags maps the flags of serve to the fields of the configuration they
// set.
func serveFlags() map[string]string {
	return map[string]string{
		"devices": "daemon.devices", "state-dir": "daemon.state_dir",
		"socket": "daemon.socket", "listen": "daemon.listen", "log-level": "daemon.log_level",
	}
}

type serveOptions struct {
	*app
	config string
	flags  map[string]string // by field, only those that were given
}

func newServe(a *app) *cobra.Command {
	o := &serveOptions{app: a, flags: map[string]string{}}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the daemon",
		GroupID: groupDaemon,
		Long: `Run the daemon in the foreground until it is interrupted.

It listens on a Unix socket and on 127.0.0.1:8000. Any other address is refused
unless a token is set (daemon.token in the configuration, or BERTH_TOKEN).
Flags win over the environment, and that over berth.yaml; "berth config" shows
what is in force and where it comes from.`,
		Example: `  berth serve
  berth serve --devices sim:4
  berth serve --config berth.yaml --listen ''`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration `FILE`")
	flags.String("devices", "", "`DEVICES` to manage: auto, nvml, sim:4, sim:MODEL,\nsim:FILE, or several separated by commas")
	flags.String("state-dir", "", "`FOLDER` for what must survive a restart")
	flags.String("socket", "", "`PATH` of the Unix socket to listen on")
	flags.String("listen", "", "TCP `ADDRESS` to listen on; empty for none")
	flags.String("log-level", "", "`LEVEL` from which on to say something: debug, info,\nwarn or error")
	_ = cmd.RegisterFlagCompletionFunc("devices", completeDevices)
	_ = cmd.MarkFlagDirname("state-dir")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for name, field := range serveFlags() {
			if flag := flags.Lookup(name); flag.Changed {
				o.flags[field] = flag.Value.String()
			}
		}
		return o.run(cmd.Context())
	}
	return cmd
}

func (o *serveOptions) run(ctx context.Context) error {
	if o.url != "" {
		return usage("serve takes no --url: it is the daemon")
	}
	return o.Serve(ctx, ServeOptions{Config: o.config, Flags: o.flags, JSON: o.json})
}
