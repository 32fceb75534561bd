package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/text/term"
)

// The exit codes; scripts rely on them. Signals other than an interrupt give exitSignal
// plus their number, as in a shell.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoDaemon    = 3
	exitRefused     = 4
	exitSignal      = 128
	exitInterrupted = 130
)

// ErrReported is a failure that the command has already reported in full, and
// ErrRefused is such a refusal.
var (
	ErrReported = errors.New("failed")
	ErrRefused  = fmt.Errorf("refused: %w", ErrReported)
)

// exitError is a failure with an exit code of its own, which the command has reported.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }
func (e *exitError) Unwrap() error { return ErrReported }

// Exit returns an error that gives the command an exit code: that of a program that it
// stands for. The command has said what happened.
func Exit(code int) error { return &exitError{code} }

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return e.Signal.String() + " signal received" }

// hintedError is an error with a next step.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// Hint returns the next step.
func (e *hintedError) Hint() string { return e.hint }

// Hinted adds a next step to an error.
func Hinted(err error, hint string) error { return &hintedError{err, hint} }

// rewordedError is an error in other words.
type rewordedError struct {
	text  string
	cause error
}

func (e *rewordedError) Error() string { return e.text }

func (e *rewordedError) Unwrap() error { return e.cause }

// Reworded returns an error in other words: those of the daemon, which knows less about what
// the user wrote.
func Reworded(err error, text string) error { return &rewordedError{text, err} }

// IsProblem reports whether the daemon refused with one of these codes.
func IsProblem(err error, codes ...string) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && slices.Contains(codes, problem.Code)
}

// ExitCode returns the exit code of a command that ended with err.
func (c *Console) ExitCode(ctx context.Context, err error) int {
	program, signal, exit := (*child.ProgramError)(nil), (*SignalError)(nil), (*exitError)(nil)
	missing, problem, wrong := (*client.NoDaemonError)(nil), (*api.Problem)(nil), (*pipeline.Error)(nil)
	switch {
	case err == nil:
		return exitDone
	case c.isUsage(err):
		return exitUsage
	case errors.As(err, &program):
		return program.Exit
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &missing), IsUnanswered(err):
		return exitNoDaemon
	case errors.As(err, &problem) && problem.Status < 500, errors.As(err, &wrong), errors.Is(err, ErrRefused):
		return exitRefused
	case IsInterrupted(ctx, err) && errors.As(context.Cause(ctx), &signal):
		return exitSignal + int(signal.Signal)
	case IsInterrupted(ctx, err):
		return exitInterrupted
	case errors.As(err, &signal):
		return exitSignal + int(signal.Signal)
	}
	return exitFailed
}

// IsUnanswered reports whether the daemon did not answer in time.
func IsUnanswered(err error) bool {
	silent := (*client.NoAnswerError)(nil)
	return errors.As(err, &silent)
}

// IsInterrupted reports whether err only means that ctx has ended.
func IsInterrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// Report writes an error, the lines that belong to it, and the next step.
func (c *Console) Report(err error) {
	if err == nil || errors.Is(err, ErrReported) {
		return
	}
	fmt.Fprintln(c.Err, "berth: "+term.CleanLines(strings.TrimSpace(err.Error())))
	if next := c.nextStep(err); next != "" {
		fmt.Fprintln(c.Err, "  "+term.CleanLines(next))
	}
}

func (c *Console) nextStep(err error) string {
	var hinted interface{ Hint() string }
	problem := (*api.Problem)(nil)
	switch {
	case errors.As(err, &hinted):
		return hinted.Hint()
	case errors.As(err, &problem) && problem.Code == "unknown_path":
		return "the daemon is older than this command: restart it after an upgrade"
	case errors.As(err, &problem):
		return "" // the daemon has named the next step
	case c.isUsage(err):
		return "see berth --help, or add --help to the command"
	case IsUnanswered(err):
		return "the daemon hangs, or cannot be reached: look at its log, or wait longer with BERTH_PATIENCE=60"
	}
	return ""
}

// usageError describes an error in a command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Usage returns an error that describes what is wrong with the command line.
func Usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// isUsage reports whether err is about the command line, and not about its result:
//
//   - errors before the command runs: unknown commands and flags, values that a flag
//     does not take, too many arguments or too few,
//   - errors that a command makes with Usage,
//   - values of flags that the configuration or the devices do not take,
//   - requests and settings that the daemon calls wrong, because it knows policies,
//     conditions and settings better than the command does.
//
// An object that does not exist, such as a device or a lease, is a refusal.
func (c *Console) isUsage(err error) bool {
	said, named := (*usageError)(nil), (*device.SpecError)(nil)
	settings, problem := (*config.Error)(nil), (*api.Problem)(nil)
	switch {
	case !c.started, errors.As(err, &said):
		return true
	case errors.As(err, &named):
		return c.devicesGiven
	case errors.As(err, &settings):
		return !slices.ContainsFunc(settings.Complaints, func(c config.Complaint) bool { return !strings.HasPrefix(c.Source, "flag --") })
	case errors.As(err, &problem):
		return problem.Code == "invalid_request" || problem.Code == "invalid_config"
	}
	return false
}
