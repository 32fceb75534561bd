package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// server is the process of a contender.
type server struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan struct{} // closed when the process has ended
}

// launch starts a server and waits until ready stops returning an error.
func launch(ctx context.Context, ready func(context.Context) error, program string, args ...string) (*server, error) {
	s := &server{cmd: exec.Command(program, args...), done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	// The server has a group of its own: an interrupt at the terminal ends this
	// program, which then stops the server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = s.cmd.Wait(); close(s.done) }()
	limit, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := ready(limit)
		if err == nil {
			return s, nil
		}
		select {
		case <-s.done:
			return nil, fmt.Errorf("%s ended: %s", program, s.said.String())
		case <-limit.Done():
			_ = s.stop()
			return nil, fmt.Errorf("%s does not answer: %w", program, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop asks the process to end, and kills it if it does not.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil // the process has ended already
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(10 * time.Second):
		return s.cmd.Process.Kill()
	}
}
