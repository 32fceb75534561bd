package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/child"
	"github.com/berth-gpu/berth/internal/pipeline"
	"github.com/berth-gpu/berth/internal/term"
)

// The exit codes; scripts rely on them. Other signals than an interrupt give
// exitSignal and their number, as in a shell.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoDaemon    = 3
	exitRefused     = 4
	exitSignal      = 128
	exitInterrupted = 130
)

// errReported is a failure that the command has already shown in full, and
// errRefused a refusal of that kind.
var (
	errReported = errors.New("failed")
	errRefused  = fmt.Errorf("refused: %w", errReported)
)

// SignalError says which signal ended a context.
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

func (a *app) exitCode(ctx context.Context, err error) int {
	program, signal := (*child.ProgramError)(nil), (*SignalError)(nil)
	missing, problem, wrong := (*client.NoDaemonError)(nil), (*api.Problem)(nil), (*pipeline.Error)(nil)
	switch {
	case err == nil:
		return exitDone
	case a.isUsage(err):
		return exitUsage
	case errors.As(err, &program):
		return program.Exit
	case errors.As(err, &missing), isUnanswered(err):
		return exitNoDaemon
	case errors.As(err, &problem) && problem.Status < 500, errors.As(err, &wrong), errors.Is(err, errRefused):
		return exitRefused
	case isInterrupted(ctx, err) && errors.As(context.Cause(ctx), &signal):
		return exitSignal + int(signal.Signal)
	case isInterrupted(ctx, err):
		return exitInterrupted
	case errors.As(err, &signal):
		return exitSignal + int(signal.Signal)
	}
	return exitFailed
}

// isUnanswered reports whether the daemon did not answer in time.
func isUnanswered(err error) bool {
	silent := (*client.NoAnswerError)(nil)
	return errors.As(err, &silent)
}

func isInterrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// report writes what went wrong, the lines that belong to it, and the next step.
func (a *app) report(err error) {
	if err == nil || errors.Is(err, errReported) {
		return
	}
	// The framework puts its guess at a mistyped command into the error.
	text, guess, _ := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	fmt.Fprintln(a.Err, "berth: "+term.CleanLines(strings.TrimSpace(text)))
	if guess != "" {
		fmt.Fprintln(a.Err, "  did you mean: "+strings.Join(strings.Fields(guess), ", "))
	} else if next := a.nextStep(err); next != "" {
		fmt.Fprintln(a.Err, "  "+term.CleanLines(next))
	}
}

func (a *app) nextStep(err error) string {
	var hinted interface{ Hint() string }
	problem := (*api.Problem)(nil)
	switch {
	case errors.As(err, &hinted):
		return hinted.Hint()
	case errors.As(err, &problem):
		return "" // the daemon has said what to do
	case a.isUsage(err):
		return "see berth --help, or add --help to the command"
	case isUnanswered(err):
		return "the daemon hangs, or cannot be reached: look at its log, or wait longer with BERTH_PATIENCE=60"
	}
	return ""
}
