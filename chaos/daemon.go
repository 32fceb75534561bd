package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/client"
)

// daemon is the program under torment. Only one goroutine starts and kills it.
type daemon struct {
	path, dir, socket string
	client            *client.Client
	log               bytes.Buffer
	cmd               *exec.Cmd
	kills             int
	slowest           time.Duration // from a start to the first answer
}

func newDaemon(path string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "berth-chaos-")
	if err != nil {
		return nil, err
	}
	d := &daemon{path: path, dir: dir, socket: filepath.Join(dir, "s")}
	d.client, err = client.New(client.Options{Socket: d.socket})
	return d, err
}

// start runs the daemon and waits for its first answer. Small cards, so that
// the clients are in each other's way.
func (d *daemon) start() error {
	begun := time.Now()
	d.cmd = exec.Command(d.path, "serve", "--devices", "sim:4xrtx-4060", "--state-dir", filepath.Join(d.dir, "state"), "--socket", d.socket, "--listen", "")
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w (run make build first)", d.path, err)
	}
	for time.Since(begun) < 30*time.Second {
		if _, err := d.client.Ready(context.Background()); err == nil {
			d.slowest = max(d.slowest, time.Since(begun))
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return fmt.Errorf("the daemon did not come back within 30 s; its last words:\n%s", tail(d.log.Bytes()))
}

func (d *daemon) kill() error {
	if err := d.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the daemon: %w; its last words:\n%s", err, tail(d.log.Bytes()))
	}
	_ = d.cmd.Wait() // it was killed: that is the answer
	d.kills++
	return nil
}

// stop ends it the friendly way.
func (d *daemon) stop() error {
	err := d.cmd.Process.Signal(syscall.SIGTERM)
	return errors.Join(err, d.cmd.Wait())
}

func (d *daemon) remove() { _ = os.RemoveAll(d.dir) }

func tail(log []byte) []byte { return log[max(0, len(log)-2000):] }
