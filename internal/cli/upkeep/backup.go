package upkeep

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/desk/backup"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// backing has the options of backup.
type backing struct {
	*console.Console
	stateDir        string
	secrets, noPast bool
}

func newBackup(con *console.Console) *cobra.Command {
	o := backing{Console: con}
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the state of the daemon into a file",
		Long: `Copy what the daemon has written down into a gzipped tar file, which "berth
restore" reads: leases, who waits, jobs, services, settings made at run time,
the audit log, events, and what was measured. The daemon may run: the copy is of
one moment. Without a daemon, the files of the state folder are copied.

The file has no secrets unless you ask for them: environments of jobs, hashes of
tokens and sessions, hooks, and the variables of services. Only its owner can
read it. FILE "-" is the standard output. Only root and the user that the daemon
runs as can make a backup.`,
		Example: "  berth backup berth.tar.gz\n  berth backup --secrets - | age -r KEY > berth.tar.gz.age",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, screen := con.Terminal(); args[0] == "-" && screen {
				return console.Usage("a backup is not for a terminal: name a file, or use a pipe")
			}
			write, err := o.source(cmd)
			if err != nil {
				return err
			}
			if args[0] == "-" {
				return write(con.Out)
			}
			if err := file.SaveSecret(args[0], write); err != nil {
				return err
			}
			done := api.Backup{File: args[0], Secrets: o.secrets}
			if info, err := os.Stat(args[0]); err == nil {
				done.Size = info.Size()
			}
			with := "without secrets: jobs that wait are held when it is restored, and tokens are made again"
			if o.secrets {
				with = "with secrets: keep it where nobody else can read it"
			}
			return con.Answer(done, con.Screen().Hang(term.Green, "✓ ", fmt.Sprintf("%s has the state of the daemon, %s, %s.", term.Clean(args[0]), sizeText(done.Size), with)))
		},
	}
	cmd.Flags().BoolVar(&o.secrets, "secrets", false, "also copy secrets")
	cmd.Flags().BoolVar(&o.noPast, "no-past", false, "leave out what was measured, the largest part")
	cmd.Flags().StringVar(&o.stateDir, "state-dir", "", "copy this state `FOLDER`, which no daemon uses")
	_ = cmd.MarkFlagDirname("state-dir")
	return cmd
}

// source returns what writes the archive: the daemon, or this process if none runs here.
func (o *backing) source(cmd *cobra.Command) (func(io.Writer) error, error) {
	if o.stateDir == "" {
		daemon, err := o.Daemon(cmd.Context())
		if err == nil {
			return func(w io.Writer) error {
				defer daemon.Close()
				return daemon.Backup(cmd.Context(), client.BackupQuery{Secrets: o.secrets, NoPast: o.noPast}, w)
			}, nil
		}
		if o.Socket != "" || o.Getenv("BERTH_SOCKET") != "" || !console.LocalMiss(err) { // who names a daemon wants that one
			return nil, err
		}
	}
	folder, err := o.StateDir(o.stateDir)
	if err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		return backup.Offline(w, backup.Source{Folder: folder, Secrets: o.secrets, NoPast: o.noPast, Version: o.Version, Machine: backup.Here(), Now: time.Now()})
	}, nil
}

func newRestore(con *console.Console) *cobra.Command {
	var replace bool
	cmd := console.OnState(con, &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the state folder of a daemon from a backup",
		Long: `Make the state folder from a file that "berth backup" wrote. Stop the daemon
first. The new folder gets its name when it is complete: a command that is
killed has changed nothing, or everything. Without --state-dir, it is the folder
of the daemon that --socket or BERTH_SOCKET names, or else the configured one;
if nobody knows where that daemon kept its state, nothing is written.

Jobs that ran when the backup was made are lost, unless they still run here, and
leases of processes that are gone end. Jobs whose environments are not in the
backup are held. New leases get fences above all that there were. FILE "-" is
the standard input.`,
		Example: "  berth restore berth.tar.gz\n  berth restore --replace berth.tar.gz\n  berth restore --state-dir /srv/berth berth.tar.gz",
	}, func(cmd *cobra.Command, state string, args []string) error {
		from := con.In
		if args[0] != "-" {
			f, err := console.Unless(cmd.Context(), func() (*os.File, error) { return os.Open(args[0]) })
			if err != nil {
				return console.Unread("read the backup", args[0], err)
			}
			defer f.Close()
			from = f
		}
		did, err := backup.Restore(interruptible{cmd.Context(), from}, backup.Options{Folder: state, Replace: replace, Machine: backup.Here(), Now: time.Now()})
		if err != nil {
			return err
		}
		return con.Answer(did, restored(did, con.Screen())...)
	})
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a state folder that is not empty, and keep it\nunder another name")
	return cmd
}

// interruptible is a reader that fails when ctx has ended, so that a restoration that
// somebody interrupts removes what it has unpacked.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (i interruptible) Read(b []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	text, err := console.Unless(i.ctx, func() ([]byte, error) {
		own := make([]byte, len(b)) // a read that goes on afterwards must not write into b
		n, err := i.from.Read(own)
		return own[:n], err
	})
	return copy(b, text), err
}

// restored says what was restored, and what to do next.
func restored(r backup.Report, to term.Screen) []string {
	lines := []string{to.Hang(term.Green, "✓ ", fmt.Sprintf("%s is as it was at %s: %s, %s.", r.Folder, r.Time.In(to.Now.Location()).Format("2006-01-02 15:04:05 MST"), words.Count(r.Leases, "lease"), words.Count(r.Files, "file")))}
	note := func(is bool, format string, args ...any) {
		if is {
			lines = append(lines, to.Hang(term.Yellow, "! ", term.CleanLines(fmt.Sprintf(format, args...))))
		}
	}
	note(r.Jobs.Lost > 0, "%s ran, and %s lost: berth does not know %s any more.", words.Count(r.Jobs.Lost, "task"), words.Form(r.Jobs.Lost, "is", "are"), words.Form(r.Jobs.Lost, "its program", "their programs"))
	note(r.Jobs.Held > 0, "%s held, because the backup has no environments: their owners submit them again.", words.Count(r.Jobs.Held, "job")+words.Form(r.Jobs.Held, " is", " are"))
	note(r.Services > 0, "%s ran, and %s again when it is asked for.", words.Count(r.Services, "service"), words.Form(r.Services, "starts", "start"))
	note(!r.Secrets, "The backup has no secrets: make tokens again (berth token create), and set hooks and variables of services that were set at run time.")
	for _, left := range r.Left {
		note(true, "%s.", left)
	}
	for _, f := range r.Problems {
		note(true, "%s: %s. %s.", f.File, f.Text, words.UpperFirst(f.Next))
	}
	if r.Aside != "" {
		lines = append(lines, to.Hang(term.Plain, "  ", "The former state is in "+r.Aside+"."))
	}
	return append(lines, to.Hang(term.Plain, "→ ", "start the daemon: systemctl start berth, or berth serve"))
}

func newState(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "state",
		Short:   "Check the state folder of the daemon",
		Example: "  berth state check",
	}
	cmd.AddCommand(newStateCheck(con))
	return cmd
}

func newStateCheck(con *console.Console) *cobra.Command {
	return console.OnState(con, &cobra.Command{
		Use:   "check",
		Short: "Check every file of the state folder",
		Long: `Check every file of the state folder: what it is, the version of its format, its
checksums, and whether berth knows it. The command changes nothing, and the
daemon may run. The exit code is 1 if something is wrong.`,
		Example: "  berth state check\n  berth state check --state-dir /var/lib/berth --json",
	}, func(_ *cobra.Command, state string, _ []string) error {
		if _, err := os.ReadDir(state); err != nil {
			return console.Hinted(fmt.Errorf("look at the state folder: %w", err), "name the state folder of the daemon: --state-dir DIR")
		}
		found := backup.Check(state)
		return con.Verdict(len(backup.Problems(found)) == 0, found, checked(found, con.Screen())...)
	})
}

// checked shows the files of a state folder, and what is wrong with them.
func checked(found []backup.Finding, to term.Screen) []string {
	if len(found) == 0 {
		return []string{"The state folder is empty."}
	}
	t := &term.Table{Columns: []term.Column{{Title: "FILE"}, {Title: "VERSION", Right: true}, {Title: "SIZE", Right: true}, {Title: "STATE"}, {Title: "WHAT", Least: 10}}}
	var wrong []string
	for _, f := range found {
		version, colour := "-", term.Green
		if f.Version > 0 {
			version = fmt.Sprint(f.Version)
		}
		if f.Grade != backup.Sound {
			colour = term.Red
			wrong = append(wrong, to.Hang(term.Yellow, "! ", term.CleanLines(fmt.Sprintf("%s: %s.", f.File, f.Text))), to.Hang(term.Plain, "  → ", term.CleanLines(f.Next)))
		}
		t.Add(term.Text(term.Clean(f.File)), term.Text(version), term.Text(sizeText(f.Size)), term.Painted(string(f.Grade), colour), term.Text(f.What))
	}
	return append(t.Lines(to.Width, to.Painter), wrong...)
}

// sizeText returns a number of bytes for people.
func sizeText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
