// Package kubectl asks a Kubernetes cluster for what berth's driver knows about each
// node, and runs the Jobs whose pods work for a batch.
//
// It uses the user's own kubectl: the cluster, the user and the rights are those of
// kubectl, and this program keeps no key.
//
// It changes nothing but those Jobs. It starts kubectl without a shell, gives every call a deadline, and
// reads no more of an answer than a node can have to say. A name in an answer becomes
// part of an address only if Kubernetes would have given it.
package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Namespace is the default namespace of the driver.
const Namespace = "berth-system"

// Options select the cluster to ask.
type Options struct {
	Program   string        // kubectl, or the value of KUBECTL; empty for kubectl
	Context   string        // of the kubeconfig; empty for the current one
	Namespace string        // of the driver; empty for Namespace
	Environ   []string      // of kubectl; nil for that of this process
	Patience  time.Duration // how long one call may take
}

// Cluster is a cluster that kubectl reaches.
type Cluster struct {
	Options
	command []string // the program, and the words before all arguments
	budget  budget
}

// isName reports whether Kubernetes accepts a name for a pod or, without dots and with
// at most 63 characters, for a namespace. It uses no regular expression, because each
// costs every command time at its start.
func isName(name string, most int, others string) bool {
	if name == "" || len(name) > most {
		return false
	}
	for i := range len(name) {
		c := name[i]
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		inside := i > 0 && i < len(name)-1 && strings.IndexByte(others, c) >= 0
		if !plain && !inside {
			return false
		}
	}
	return true
}

// New finds kubectl. It does not ask the cluster yet.
func New(o Options) (*Cluster, error) {
	if o.Namespace == "" {
		o.Namespace = Namespace
	}
	if !isName(o.Namespace, 63, "-") {
		return nil, &NameError{o.Namespace}
	}
	command, err := find(o.Program)
	if err != nil {
		return nil, &Error{Text: "cannot run kubectl: " + err.Error(), Next: "install kubectl, or name it in KUBECTL; --urls asks daemons without it"}
	}
	return &Cluster{Options: o, command: command}, nil
}

// NameError reports an invalid namespace.
type NameError struct{ Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("%q is not the name of a namespace: it has small letters, digits and hyphens", e.Name)
}

// find returns the command in a value of KUBECTL: a program, or a program with
// arguments, as in "microk8s kubectl".
func find(program string) ([]string, error) {
	if strings.TrimSpace(program) == "" {
		program = "kubectl"
	}
	if path, err := exec.LookPath(program); err == nil {
		return []string{path}, nil
	}
	words := strings.Fields(program)
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, err
	}
	return append([]string{path}, words[1:]...), nil
}

// run runs kubectl and returns up to most bytes of its output.
func (c *Cluster) run(ctx context.Context, most int, args ...string) ([]byte, error) {
	return c.runWith(ctx, nil, most, args...)
}

// runWith does the same, with something on the standard input of kubectl.
func (c *Cluster) runWith(ctx context.Context, input []byte, most int, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	args = append(args, fmt.Sprintf("--request-timeout=%.0fs", max(1, c.Patience.Seconds())))
	if c.Context != "" {
		args = append(args, "--context="+c.Context)
	}
	cmd := exec.CommandContext(limited, c.command[0], append(c.command[1:len(c.command):len(c.command)], args...)...)
	const said = 16 << 10
	out, errs := &bounded{most: most, full: cancel}, &bounded{most: said}
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Environ, out, errs
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	cmd.WaitDelay = time.Second // a program that kubectl started may still hold its output
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.over:
		return nil, &Error{Text: fmt.Sprintf("the answer is larger than %d MiB", most>>20)}
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return nil, &Error{Text: fmt.Sprintf("no answer within %s", c.Patience), Next: "check the cluster with kubectl get nodes, or wait longer with BERTH_PATIENCE=60"}
	case err != nil:
		return nil, failed(err, errs.kept)
	}
	return out.kept, nil
}

// bounded keeps the bytes written to it, up to a limit. If full is set, a write beyond
// the limit fails and full ends the program that writes; otherwise bounded drops the
// rest. It has no method but Write, so that nothing gets past the limit.
type bounded struct {
	kept []byte
	most int
	full context.CancelFunc
	over bool
}

// Write keeps p as far as there is room.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - len(b.kept)
	if len(p) <= room {
		b.kept = append(b.kept, p...)
		return len(p), nil
	}
	b.over = true
	if b.full != nil {
		b.full()
		return 0, errors.New("the answer is too large")
	}
	b.kept = append(b.kept, p[:room]...)
	return len(p), nil
}

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
		return "you need the rights to list pods and to get pods/proxy there (berth help nodes); another user: --context NAME"
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
