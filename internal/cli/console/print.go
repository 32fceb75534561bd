package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Answer writes a value as JSON if the user asked for that, and otherwise lines.
func (c *Console) Answer(v any, lines ...string) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	return c.Print(lines...)
}

// Verdict does the same as Answer for a result that is a failure unless it is good.
func (c *Console) Verdict(good bool, v any, lines ...string) error {
	if err := c.Answer(v, lines...); err != nil || good {
		return err
	}
	return ErrReported
}

// AnswerOne does the same as Answer for one of many values, which JSON has on a line
// each.
func AnswerOne[T any](c *Console, v T, say func(T, term.Screen) string) error {
	if c.JSON {
		return c.PrintJSONLine(v)
	}
	return c.Print(say(v, c.Uncut()))
}

// PrintJSON writes a value as JSON that people can read as well.
func (c *Console) PrintJSON(v any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// PrintJSONLine writes a value as JSON on one line, for streams.
func (c *Console) PrintJSONLine(v any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// Print writes lines.
func (c *Console) Print(lines ...string) error {
	_, err := fmt.Fprintln(c.Out, strings.Join(lines, "\n"))
	return err
}

// usualWidth is the default width of output that is not a terminal.
const usualWidth = 80

// width returns the number of columns to fill.
func (c *Console) width() int {
	if w, ok := c.Terminal(); ok && w > 0 {
		return w
	}
	if w, err := strconv.Atoi(c.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return usualWidth
}

func (c *Console) isTerminal() bool {
	_, ok := c.Terminal()
	return ok
}

// LiveWidth returns the width of the terminal that is Err. It returns false if Err is
// not a terminal that can be overwritten.
func (c *Console) LiveWidth() (width int, ok bool) {
	if c.ErrTerminal == nil || c.Getenv("TERM") == "dumb" {
		return 0, false
	}
	width, ok = c.ErrTerminal()
	return width, ok && width > 0 // some have no columns, and no room for anything
}

// Screen returns the screen that views are written for: Out in its present size.
func (c *Console) Screen() term.Screen {
	colours := c.isTerminal() && c.Getenv("NO_COLOR") == "" && c.Getenv("TERM") != "dumb"
	return term.Screen{Painter: term.Painter(colours), Width: c.width(), Now: c.Now()}
}

// Uncut returns the screen without a right edge if Out is not a terminal, so that
// programs get whole lines.
func (c *Console) Uncut() term.Screen {
	to := c.Screen()
	if !c.isTerminal() {
		to.Width = math.MaxInt
	}
	return to
}

// Unless returns what read returns, unless ctx ends first: to open a pipe or to read from a
// terminal may take until somebody writes there.
func Unless[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		is  T
		err error
	}
	done := make(chan result, 1)
	go func() {
		is, err := read()
		done <- result{is, err}
	}()
	select {
	case r := <-done:
		return r.is, r.err
	case <-ctx.Done():
		return *new(T), context.Cause(ctx)
	}
}

// Read returns up to most bytes of a file, unless ctx ends first. The path "-" means
// standard input.
func (c *Console) Read(ctx context.Context, path string, most int64) ([]byte, error) {
	return Unless(ctx, func() ([]byte, error) { return c.read(path, most) })
}

func (c *Console) read(path string, most int64) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(c.In, most))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// Unread returns the error of a file that could not be read or written, with the next
// step: what is missing is named as the user wrote it.
func Unread(doing, path string, err error) error {
	folder := filepath.Dir(path)
	switch _, missing := os.Stat(folder); {
	case errors.Is(err, syscall.EISDIR):
		return Hinted(fmt.Errorf("%s: %s is a folder", doing, path), "name a file in it: ls "+words.Shell(path))
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, fs.ErrPermission):
		return Hinted(fmt.Errorf("%s: you may not open %s", doing, path), "look with: ls -ld "+words.Shell(folder)+" "+words.Shell(path))
	case missing != nil:
		return Hinted(fmt.Errorf("%s: there is no folder %s", doing, folder), "make it, or name another file")
	}
	return Hinted(fmt.Errorf("%s: there is no file %s", doing, path), "look with: ls "+words.Shell(folder))
}

// NameOf returns the name of a file for messages.
func NameOf(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// OnState returns a command that works on the files in the state folder of a daemon, which
// --state-dir names.
func OnState(con *Console, cmd *cobra.Command, do func(cmd *cobra.Command, folder string, args []string) error) *cobra.Command {
	folder := cmd.Flags().String("state-dir", "", "state `FOLDER` of the daemon (default as configured)")
	_ = cmd.MarkFlagDirname("state-dir") // fails only for a flag that does not exist
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		state, err := con.StateDir(*folder)
		if err != nil {
			return err
		}
		return do(cmd, state, args)
	}
	return cmd
}

// StateDir returns the state folder of the daemon: given, or else that of the daemon that
// is named by its socket, or else the configured one, and says on Err which of these. If nobody
// knows where a daemon that is named keeps its state, StateDir takes no other folder.
func (c *Console) StateDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	settings, err := c.Settings("")
	if err != nil {
		return "", Hinted(err, "or name the folder: --state-dir DIR")
	}
	folder, socket := settings.Config.Daemon.StateDir, cmp.Or(c.Socket, c.Getenv("BERTH_SOCKET"))
	_, usual := config.DefaultPaths(os.Geteuid() == 0, c.Getenv)
	switch traced, known := file.Traced(socket); {
	case strings.HasPrefix(settings.Source("daemon.state_dir"), "environment "): // it is named as well
		return folder, nil
	case c.Remote():
		return "", Hinted(Usage("a daemon that is named by an address may keep its state on another machine"), "name the folder: --state-dir DIR; or leave out --url and BERTH_URL")
	case socket != "" && known:
		folder = traced
	case socket != "" && socket != usual:
		return "", Hinted(Usage("nobody knows where the daemon at %s keeps its state", socket), "name the folder: --state-dir DIR")
	}
	fmt.Fprintf(c.Err, "berth: the state folder is %s\n", term.Clean(folder))
	return folder, nil
}
