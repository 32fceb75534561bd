// Package kubectl asks a Kubernetes cluster for what berth's driver knows about
// each node.
//
// It does so through the user's own kubectl: the cluster, the user and the
// rights are those that kubectl has, and this program keeps no key.
//
// It only reads. It starts kubectl without a shell, gives every call a deadline, and
// reads no more of an answer than a node can have to say. Names that come back become
// part of an address only if Kubernetes would have given them.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Namespace is where the driver runs, unless somebody chose another namespace.
const Namespace = "berth-system"

// Options say which cluster to ask.
type Options struct {
	Program   string        // kubectl, or the value of KUBECTL; empty: kubectl
	Context   string        // of the kubeconfig; empty: the current one
	Namespace string        // of the driver; empty: Namespace
	Environ   []string      // of kubectl; nil: that of this process
	Patience  time.Duration // how long one call may take
}

// Cluster is a cluster as kubectl reaches it.
type Cluster struct {
	Options
	command []string // the program, and words that stand before all arguments
	budget  budget
}

// isName reports whether Kubernetes gives a name like this to a pod, or with no dots
// and at most 63 characters to a namespace. It is no regular expression, because each
// of those costs every command time at its start.
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

// NameError reports a namespace that cannot be.
type NameError struct{ Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("%q is not the name of a namespace: it has small letters, digits and hyphens", e.Name)
}

// find returns the command that a value of KUBECTL names: a program, or a program
// with words behind it, as in "microk8s kubectl".
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

// run runs kubectl and returns what it prints, up to a number of bytes.
func (c *Cluster) run(ctx context.Context, most int, args ...string) ([]byte, error) {
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

// bounded keeps what is written to it, up to a limit. A writer of more gets an error
// if full is set, which ends the program that writes; without it the rest is dropped. It has no
// method but Write, so that nothing gets past the limit.
type bounded struct {
	kept []byte
	most int
	full context.CancelFunc
	over bool
}

// Write takes some more.
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
