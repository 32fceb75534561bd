package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/batch/remote"
	"github.com/berth-gpu/berth/internal/batch/transport"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/process/child"
)

// hostFlags are the flags of a batch on other machines.
type hostFlags struct {
	hosts     []string
	files     []string
	sameFiles bool
	berth     string
	silent    console.Seconds
}

func (h *hostFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&h.hosts, "hosts", nil, "use the GPUs of these `HOSTS` over ssh, as in\ngpu1,gpu2:2; :2 is the most workers there, and a\ndot is this machine")
	flags.StringSliceVar(&h.files, "files", nil, "take these `FILES` and folders to the hosts, from\nbelow the current folder")
	flags.BoolVar(&h.sameFiles, "same-files", false, "the hosts have the current folder, as on a shared\ndisk")
	flags.StringVar(&h.berth, "berth-path", "berth", "`PATH` of berth on the hosts")
	flags.Var(&h.silent, "host-timeout", "leave a host that is silent for this `TIME`\n(default 15s)")
	_ = cmd.MarkFlagFilename("files") // it fails only for a flag that does not exist
}

// check refuses what cannot be meant.
func (h *hostFlags) check(kubernetes bool) error {
	switch {
	case len(h.hosts) == 0 && !kubernetes && (len(h.files) > 0 || h.sameFiles):
		return console.Usage("--files and --same-files need --hosts: on this machine workers find their files anyway")
	case len(h.hosts) > 0 && len(h.files) == 0 && !h.sameFiles:
		return console.Usage("--hosts needs --files or --same-files: say which files the workers need there, as in --files worker.py, or that the hosts have the same folder")
	case len(h.files) > 0 && h.sameFiles:
		return console.Usage("give --files or --same-files, not both")
	case h.silent.Known() && h.silent.Or(0) < 1:
		return console.Usage("--host-timeout must be 1s or more")
	}
	return nil
}

// open opens a batch on other machines.
func (h *hostFlags) open(ctx context.Context, con *console.Console, o programs.BatchOptions) (*programs.Batch, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ssh := strings.Fields(cmp.Or(con.Getenv("BERTH_SSH"), "ssh"))
	hosts, err := programs.ParseHosts(h.hosts, func(host string) transport.Way {
		if host == "." {
			return transport.Here(self, con.Socket)
		}
		return transport.SSH(transport.Quicker(ctx, ssh, host), host, h.berth)
	})
	if err != nil {
		return nil, console.Usage("--hosts: %v", err)
	}
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	options := programs.HostOptions{BatchOptions: o, Hosts: hosts, Berth: con.Version, Silent: cmp.Or(h.silent.Duration(), defaultSilence)}
	if h.sameFiles {
		options.Task.Folder = folder
	} else if options.Files, err = remote.PackFiles(folder, h.files); err != nil {
		return nil, err
	}
	return programs.OpenHosts(ctx, options)
}

// defaultSilence is how long a host may be silent.
const defaultSilence = 15 * time.Second

// newWork returns the command that a runner starts on a host.
func newWork(con *console.Console) *cobra.Command {
	var pod bool
	var install string
	var await console.Seconds
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Start workers for a runner on another machine",
		Long: `Start workers for "berth run --hosts" on another machine, which starts this
command over ssh and speaks with it over standard input and output. It is not
for people.`,
		Example: "  ssh gpu1 berth work",
		Hidden:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case install != "":
				return programs.Install(install)
			case await.Known():
				return programs.AwaitRunners(cmd.Context(), podLock(), await.Duration())
			}
			signal.Ignore(syscall.SIGPIPE) // the end of the pipe is the end of the session, which ends the workers
			cache, err := os.UserCacheDir()
			if err != nil {
				return err
			}
			h := hosted{Console: con, pod: pod}
			defer h.close()
			return remote.Serve(cmd.Context(), con.In, con.Out, remote.Site{
				Berth: con.Version, Cache: filepath.Join(cache, "berth", "files"), Open: h.open,
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&pod, "pod", false, "this is a pod: Kubernetes has leased its GPU")
	flags.Var(&await, "await", "only wait, until no runner was here for this `TIME`")
	flags.StringVar(&install, "install", "", "only copy this program to a `PATH`")
	return cmd
}

// podLock returns the file that says whether a runner uses a pod. It is beside this program,
// which was put where it can be.
func podLock() string {
	self, err := os.Executable()
	if err != nil {
		return "runner"
	}
	return filepath.Join(filepath.Dir(self), "runner")
}

// hosted is this machine as a runner on another one uses it.
type hosted struct {
	*console.Console
	pod    bool           // it has no daemon
	daemon *client.Client // nil until it is asked
}

func (h *hosted) close() {
	if h.daemon != nil {
		h.daemon.Close()
	}
}

// open opens a workshop in a folder.
func (h *hosted) open(ctx context.Context, t remote.Task, folder string, log io.Writer, say func(string, ...any)) (remote.Workshop, error) {
	if len(t.Command) == 0 {
		return nil, &remote.Refusal{Text: "there is no command: this is not the protocol", Lasting: true}
	}
	if folder == "" {
		folder = "."
	}
	if err := os.Chdir(folder); err != nil { // commands and files are named from there
		return nil, &remote.Refusal{Text: fmt.Sprintf("workers cannot run in %s there (%v): take the files along with --files", folder, errors.Unwrap(err)), Lasting: true}
	}
	if h.pod {
		w, err := programs.OpenPodShop(t, h.Getenv, h.Environ, log, podLock())
		return w, lastingly(err)
	}
	var err error
	if h.daemon, err = h.Daemon(ctx); err != nil {
		return nil, fmt.Errorf("%w; berth doctor there says more", err)
	}
	w, err := programs.OpenWorkshop(ctx, h.daemon, programs.BatchOptions{
		Command: t.Command, Environ: h.Environ, Log: log, Say: say, Request: t.Request, PerGPU: max(t.PerGPU, 1), GPUs: t.GPUs,
		Socket: h.Socket, Hold: programs.HoldOver(h.daemon),
	})
	return w, lastingly(err)
}

// lastingly makes a refusal of an error about the command of the workers.
func lastingly(err error) error {
	if missing := (*child.ProgramError)(nil); errors.As(err, &missing) {
		return &remote.Refusal{Text: fmt.Sprintf("the worker cannot be started there: %v", err), Lasting: true}
	}
	return err
}
