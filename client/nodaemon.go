package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"
)

// NoDaemonError reports that no daemon listens where the client looked.
type NoDaemonError struct {
	Attempts []Attempt // in order
}

// Attempt is one place where the client looked for a daemon.
type Attempt struct {
	Network string // unix or tcp
	Address string // path of the socket, or host and port
	Err     error  // why there is no connection
}

func (e *NoDaemonError) Error() string {
	var tried []string
	for _, a := range e.Attempts {
		cause := a.Err
		if errno := syscall.Errno(0); errors.As(a.Err, &errno) {
			cause = errno
		}
		tried = append(tried, fmt.Sprintf("%s: %v", a.Address, cause))
	}
	return "no daemon answers (" + strings.Join(tried, "; ") + ")"
}

// Unwrap returns the causes, so that errors.Is(err, fs.ErrPermission) tells a missing
// daemon from one that the user may not use.
func (e *NoDaemonError) Unwrap() []error {
	var errs []error
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	return errs
}

// Hint returns the next step, in one sentence.
func (e *NoDaemonError) Hint() string {
	for _, a := range e.Attempts {
		if a.Network == "unix" && errors.Is(a.Err, fs.ErrPermission) {
			return "your user may not open " + a.Address + ": join the group that owns it, or use sudo"
		}
	}
	for _, a := range e.Attempts {
		if a.Network == "tcp" {
			return "check the address, or start a daemon there: berth serve"
		}
	}
	return "start one: berth serve"
}

// dialFirst connects to the first address that answers.
func dialFirst(ctx context.Context, network string, addresses []string) (net.Conn, error) {
	var dialer net.Dialer
	var failed NoDaemonError
	for _, address := range addresses {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failed.Attempts = append(failed.Attempts, Attempt{network, address, err})
	}
	return nil, &failed
}

// NoAnswerError reports that a daemon did not answer within Options.Timeout, because it
// hangs or cannot be reached.
type NoAnswerError struct {
	Call   string // method and path
	Within time.Duration
	Err    error
}

func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("%s: no answer within %s", e.Call, e.Within)
}

func (e *NoAnswerError) Unwrap() error { return e.Err }
