package upkeep

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/text/term"
)

// serveFlags maps the flags of serve to the fields of the configuration that they set.
func serveFlags() map[string]string {
	return map[string]string{
		"devices": "daemon.devices", "state-dir": "daemon.state_dir",
		"socket": "daemon.socket", "listen": "daemon.listen", "log-level": "daemon.log_level",
	}
}

// ServeOptions holds the command-line options of the daemon.
type ServeOptions struct {
	// Config is the configuration file; empty means the default place.
	Config string
	// Flags holds the flags that were given, by the field they set, as in
	// daemon.listen. It also holds a flag that was given empty.
	Flags map[string]string
	// JSON asks for a log that programs can read.
	JSON bool
}

func newServe(con *console.Console, daemon Daemon) *cobra.Command {
	o := ServeOptions{Flags: map[string]string{}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon in the foreground until you interrupt it.

The daemon listens on a Unix socket and on 127.0.0.1:8000. It refuses any other
address unless TLS is set (daemon.tls_cert and daemon.tls_key), and callers from
there show a token or a certificate. Flags override the environment, and the
environment overrides berth.yaml. "berth config" shows every setting and where
it comes from.`,
		Example: `  berth serve
  berth serve --devices sim:4
  berth serve --config berth.yaml --listen ''`,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Config, "config", "", "read this configuration `FILE`")
	devices := "manage these `DEVICES`: " + strings.Join(device.Specs(), ", ") + ", or several separated by commas"
	flags.String("devices", "", strings.Join(term.Wrap(devices, 53), "\n"))
	flags.String("state-dir", "", "keep what must survive a restart in this `FOLDER`")
	flags.String("socket", "", "listen on the Unix socket at this `PATH`")
	flags.String("listen", "", "listen on this TCP `ADDRESS`; empty: on none")
	flags.String("log-level", "", "log messages of at least this `LEVEL`: debug, info,\nwarn or error")
	console.CompleteWith(cmd, "devices", device.SpecExamples())
	_ = cmd.MarkFlagDirname("state-dir")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for name, field := range serveFlags() {
			if flag := flags.Lookup(name); flag.Changed {
				o.Flags[field] = flag.Value.String()
			}
		}
		if con.URL != "" {
			return console.Usage("serve takes no --url: it runs a daemon here")
		}
		o.JSON = con.JSON
		return daemon.Serve(cmd.Context(), o)
	}
	return cmd
}

func newVersion(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of berth",
		Example: "  berth version\n  berth version --json",
		RunE: func(*cobra.Command, []string) error {
			versions := api.Version{Version: con.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			return con.Answer(versions, fmt.Sprintf("berth %s (%s, %s/%s)", con.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
		},
	}
}
