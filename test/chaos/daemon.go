package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

const (
	devices = "sim:4xrtx-4060"
	slots   = 6
)

// daemon is berth, started and killed again and again in the same place.
type daemon struct {
	berth   string
	dir     string
	replace string // command that replaces the daemon of this machine instead, which systemd runs
	random  *rand.Rand
	gentle  bool // every third time it is asked to end, and not killed

	cmd    *exec.Cmd
	exited chan error
	kills  int
	asked  int             // how often it was asked to end
	starts []time.Duration // from the start of the process to its first answer
	broken error           // it ended by itself
	over   chan struct{}   // closed then
}

func (d *daemon) socket() string {
	if d.replace != "" {
		return "/run/berth/berth.sock"
	}
	return filepath.Join(d.dir, "s")
}

func (d *daemon) state() string {
	if d.replace != "" {
		return "/var/lib/berth"
	}
	return filepath.Join(d.dir, "state")
}

func (d *daemon) logName() string { return filepath.Join(d.dir, "log") }

// prepare writes the configuration and starts the daemon for the first time.
func (d *daemon) prepare() error {
	if d.replace != "" {
		return d.wait()
	}
	text := fmt.Sprintf("gpu: {max_pipelines: %d, monitor_interval: 200ms}\n", slots)
	if err := os.WriteFile(filepath.Join(d.dir, "berth.yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	if err := d.start(); err != nil {
		return err
	}
	return d.wait()
}

func (d *daemon) start() error {
	log, err := os.OpenFile(d.logName(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command(d.berth, "serve", "--config", filepath.Join(d.dir, "berth.yaml"), "--devices", devices,
		"--state-dir", d.state(), "--socket", d.socket(), "--listen", "")
	d.cmd.Stderr = log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w (run make build first)", d.berth, err)
	}
	d.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(d.cmd, d.exited)
	return nil
}

// wait is over when the daemon takes connections.
func (d *daemon) wait() error {
	begun := time.Now()
	for {
		if conn, err := net.Dial("unix", d.socket()); err == nil {
			d.starts = append(d.starts, time.Since(begun))
			return conn.Close()
		}
		select {
		case err := <-d.exited:
			return d.endedByItself(err)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Since(begun) > 6*longest {
			return fmt.Errorf("no daemon takes connections on %s for %v", d.socket(), 6*longest)
		}
	}
}

// look asks the daemon what there is before anybody holds anything.
func (d *daemon) look() (map[string]gpu.MiB, error) {
	var all api.Available
	c := newClient(-1, d.socket(), d.over, nil, nil)
	if status, err := c.call("GET", "/api/gpu/memory/available", nil, &all); err != nil || status != 200 {
		return nil, fmt.Errorf("ask what is available: %d, %w", status, err)
	}
	machine := map[string]gpu.MiB{}
	for _, g := range all.GPUs {
		machine[g.GPU] = g.Total - g.Reserve
	}
	return machine, nil
}

// killAgainAndAgain kills the daemon at random moments until ctx ends, and on
// until it was killed often enough or that takes longer than at most.
func (d *daemon) killAgainAndAgain(ctx context.Context, enough int, most time.Duration) error {
	begun := time.Now()
	for ctx.Err() == nil || d.kills < enough && time.Since(begun) < most {
		// Short lives are as interesting as long ones: some end while the
		// journal is read back.
		life := time.Duration(d.random.ExpFloat64() * float64(300*time.Millisecond))
		select {
		case err := <-d.exited:
			return d.endedByItself(err)
		case <-time.After(min(life, 2*time.Second)):
		}
		if d.replace != "" {
			if said, err := exec.Command("/bin/sh", "-c", d.replace).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", d.replace, err, said)
			}
			d.kills, d.asked = d.kills+1, d.asked+1
			if err := d.wait(); err != nil {
				return err
			}
			continue
		}
		if d.gentle && d.random.IntN(3) == 0 {
			if err := d.ask(); err != nil {
				return err
			}
			d.asked++
		} else if err := d.kill(); err != nil {
			return err
		}
		d.kills++
		if err := d.start(); err != nil {
			return err
		}
		if d.random.IntN(5) > 0 { // else it may be killed before it is up
			if err := d.wait(); err != nil {
				return err
			}
		}
	}
	return d.wait()
}

func (d *daemon) kill() error {
	err := d.cmd.Process.Kill()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.exited
	return nil
}

// ask asks the daemon to end, as systemd does.
func (d *daemon) ask() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-d.exited:
		return nil
	case <-time.After(longest):
		_ = d.kill()
		return fmt.Errorf("the daemon does not end within %v of SIGTERM", longest)
	}
}

func (d *daemon) stop() {
	if d.broken == nil && d.replace == "" {
		_ = d.kill()
	}
}

func (d *daemon) endedByItself(err error) error {
	close(d.over)
	text, _ := os.ReadFile(d.logName())
	d.broken = fmt.Errorf("the daemon ended by itself (%v); its last words:\n%s", err, text[max(0, len(text)-1000):])
	return d.broken
}

// err says whether the daemon ended by itself.
func (d *daemon) err() error {
	select {
	case err := <-d.exited:
		_ = d.endedByItself(err)
	default:
	}
	return d.broken
}

func (d *daemon) enough(kills int) error {
	if d.kills < kills {
		return fmt.Errorf("the daemon was killed only %d times, and %d were asked for: give it more -seconds", d.kills, kills)
	}
	return nil
}
