package upkeep

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// FrontOptions holds the command-line options of the front.
type FrontOptions struct {
	Daemon   *client.Client
	Settings api.FrontSettings // those that were given
	Spool    string            // the folder for uploads; empty means the usual one
	Level    string            // of the log
	JSON     bool              // asks for a log that programs can read
}

func newFront(con *console.Console, daemon Daemon) *cobra.Command {
	var o FrontOptions
	cmd := &cobra.Command{
		Use:    "front",
		Short:  "Take HTTP requests for services",
		Hidden: true, // a daemon or systemd starts it
		Long: `Take HTTP requests for all services on one address, and pass them on.

A request names its service by the model in its body or query, by the path
/services/NAME/, by the header X-Berth-Service or by its host. If the service is
away, the daemon brings it while the request waits.

The front runs as a user of its own, never as root, and needs no files: the
daemon tells it where to listen (front.listen) and what to do. SIGTERM ends it
after its last request, a second one at once.`,
		Example: "  berth front\n  berth front --listen 127.0.0.1:8080",
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Settings.Listen, "listen", "", "listen on this TCP `ADDRESS` instead of front.listen")
	flags.StringVar(&o.Settings.TLSCert, "tls-cert", "", "show the certificate in this `FILE`")
	flags.StringVar(&o.Settings.TLSKey, "tls-key", "", "the `FILE` with its key")
	flags.StringVar(&o.Spool, "spool", "", "keep uploads in this `FOLDER` until their model is\nknown")
	flags.StringVar(&o.Level, "log-level", "info", "log messages of at least this `LEVEL`: debug, info,\nwarn or error")
	_ = cmd.MarkFlagDirname("spool")
	_ = cmd.MarkFlagFilename("tls-cert")
	_ = cmd.MarkFlagFilename("tls-key")
	daemonUID := flags.Int("daemon-uid", -1, "take orders only from a daemon with this `UID`; whoever\nstarts the front gives its own")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if con.URL != "" {
			return console.Usage("front takes no --url: the daemon knows it by its user, on the socket")
		}
		if (o.Settings.TLSCert == "") != (o.Settings.TLSKey == "") {
			return console.Usage("--tls-cert and --tls-key go together")
		}
		if new(slog.Level).UnmarshalText([]byte(o.Level)) != nil {
			return console.Usage("there is no log level %q: use debug, info, warn or error", o.Level)
		}
		if *daemonUID >= 0 {
			con.DaemonUID = gpu.Some(*daemonUID)
		}
		var err error
		if o.Daemon, err = con.Client(); err != nil {
			return err
		}
		o.JSON = con.JSON
		return daemon.Front(cmd.Context(), o)
	}
	return cmd
}
