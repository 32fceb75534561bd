package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a program that runs until it is stopped.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  *bytes.Buffer // read it only when done is closed
}

func start(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), done: make(chan struct{}), log: new(bytes.Buffer)}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 20 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// stop ends the program and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-p.done
}

// answers waits until an address answers with 200.
func (p *process) answers(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close() // nothing of it is needed
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %s", p.cmd.Path, p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer at %s: %w", p.cmd.Path, address, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// freeAddress returns an address at which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// prometheus is a server that scrapes berth.
type prometheus struct {
	*process
	server
}

// startPrometheus starts a server that scrapes an address every second.
func startPrometheus(ctx context.Context, program, folder, target string) (*prometheus, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nscrape_configs:\n  - job_name: berth\n    static_configs: [{targets: [%q]}]\n", target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := start(ctx, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	if err != nil {
		return nil, err
	}
	s := server{name: filepath.Base(program), base: "http://" + address}
	if err := p.answers(ctx, s.base+"/-/ready"); err != nil {
		p.stop()
		return nil, err
	}
	return &prometheus{p, s}, nil
}
