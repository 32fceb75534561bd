package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	attacker = 65534 // the hostile user
	victim   = 65533 // another user
)

// arena holds what one attack uses: a folder that every user can enter, and the
// processes that it started.
type arena struct {
	*grounds
	dir   string
	small bool

	mu      sync.Mutex // guards what follows
	started []started
}

// grounds is the folder of all arenas, with copies of the programs.
type grounds struct {
	dir   string
	berth string // a copy that every user can run
	self  string // a copy of this program, likewise
}

func newGrounds(berth string) (*grounds, error) {
	dir, err := os.MkdirTemp("", "berth-hostile-")
	if err != nil {
		return nil, err
	}
	g := &grounds{dir: dir, berth: filepath.Join(dir, "berth"), self: filepath.Join(dir, "hostile")}
	own, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), copyProgram(berth, g.berth), copyProgram(berth+"-serve", g.berth+"-serve"), copyProgram(own, g.self))
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *grounds) close() { _ = os.RemoveAll(g.dir) }

func (g *grounds) arena(name string, small bool) (*arena, error) {
	a := &arena{grounds: g, dir: filepath.Join(g.dir, name), small: small}
	return a, os.Mkdir(a.dir, 0o755)
}

// copyProgram copies a program to where every user can run it: go run puts it
// into a folder that only root can enter.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

// folder makes a folder that a user owns.
func (a *arena) folder(name string, mode os.FileMode, uid int) (string, error) {
	path := filepath.Join(a.dir, name)
	return path, errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, uid, uid), os.Chmod(path, mode))
}

// started is a started process. Any number of goroutines may wait for it.
type started struct {
	*exec.Cmd
	wait func() error
}

// start starts a process in a group of its own. The process ends with this one.
func (a *arena) start(cmd *exec.Cmd) (wait func() error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	wait = sync.OnceValue(cmd.Wait)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started = append(a.started, started{cmd, wait})
	return wait, nil
}

// as makes a command run as a user; flags are those of clone(2).
func as(cmd *exec.Cmd, uid int, flags uintptr) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return cmd
}

// close ends every process of the arena, and removes the folder.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cmd := range slices.Backward(a.started) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	for _, cmd := range a.started {
		_ = cmd.wait() // the error says only that it was killed
	}
	_ = os.RemoveAll(a.dir)
}

// eventually calls f until it returns true, or until the time is over.
func eventually(most time.Duration, f func() bool) bool {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Since(began) > most {
			return false
		}
	}
}

// printMachine prints the version of berth and the machine.
func printMachine(berth string) error {
	version, err := exec.Command(berth, "version").Output()
	if err != nil {
		return fmt.Errorf("run %s version: %w; run make build first", berth, err)
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // for the record only
	fmt.Printf("%s%s, %d CPUs, Linux %s, %s\n\n", version, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), bytes.TrimSpace(kernel), runtime.Version())
	return nil
}

// size returns small in the short version, and full otherwise.
func (a *arena) size(small, full int) int {
	if a.small {
		return small
	}
	return full
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
