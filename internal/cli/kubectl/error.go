package kubectl

import (
	"errors"
	"os/exec"
	"strings"
)

// Error is the message of kubectl or the cluster instead of an answer.
type Error struct {
	Code string // the reason that the API server gave, such as Forbidden; empty if none
	Text string // one sentence without a full stop; it may hold anything, so the caller must clean it
	Next string // the next step
}

func (e *Error) Error() string { return e.Text }

// Hint returns the next step.
func (e *Error) Hint() string { return e.Next }

// failed returns the error for the output of a kubectl that failed.
func failed(err error, said []byte) error {
	exit := (*exec.ExitError)(nil)
	text := lastLine(said)
	if text == "" || !errors.As(err, &exit) {
		return &Error{Text: "kubectl failed: " + err.Error()}
	}
	e := &Error{Text: strings.TrimPrefix(text, "error: ")}
	if rest, found := strings.CutPrefix(text, "Error from server ("); found {
		e.Code, e.Text, _ = strings.Cut(rest, "): ")
	}
	e.Next = nextStep(e)
	return e
}

// nextStep returns the next step after an error of kubectl.
func nextStep(e *Error) string {
	has := func(part string) bool { return strings.Contains(e.Text, part) }
	switch {
	case e.Code == "Forbidden":
		return "you need the rights to list pods and to get pods/proxy there (docs/guide/nodes.md); another user: --context NAME"
	case e.Code == "Unauthorized", has("must be logged in"):
		return "log in to the cluster, or choose another user: --context NAME"
	case has("context") && has("does not exist"):
		return "kubectl config get-contexts lists what there is"
	case has("invalid configuration"), has("The connection to the server"), has("Unable to connect"), has("no such host"), has("i/o timeout"):
		return "check with kubectl cluster-info, or choose another cluster: --context NAME"
	}
	return ""
}

// lastLine returns the last line that is not empty. The lines before it are warnings
// and the log of kubectl's libraries.
func lastLine(said []byte) string {
	last := ""
	for line := range strings.Lines(string(said)) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return last
}
