package main

import (
	"bytes"
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

// arena is where one attack takes place: a folder that every user can pass, and
// the processes that were started for it.
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
	self  string // likewise, of this program
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

// copyProgram copies a program to where every user can run it: that of go run
// is in a folder of root's.
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

// folder makes a folder of a user.
func (a *arena) folder(name string, mode os.FileMode, uid int) (string, error) {
	path := filepath.Join(a.dir, name)
	return path, errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, uid, uid), os.Chmod(path, mode))
}

// started is a process that was started. Anybody may wait for it, and several
// may.
type started struct {
	*exec.Cmd
	wait func() error
}

// start starts a process in a group of its own that ends with this one.
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

// close ends every process that was started, and removes the folder.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cmd := range slices.Backward(a.started) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	for _, cmd := range a.started {
		_ = cmd.wait() // an error says that it was killed
	}
	_ = os.RemoveAll(a.dir)
}

// eventually calls f until it returns true, for at most so long.
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

// printMachine prints what is measured, and on what.
func printMachine(berth string) error {
	version, err := exec.Command(berth, "version").Output()
	if err != nil {
		return fmt.Errorf("%w: run make build first", err)
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // for the record only
	fmt.Printf("%s%s, %d CPUs, Linux %s, %s\n\n", version, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), bytes.TrimSpace(kernel), runtime.Version())
	return nil
}

// size is how often something is done in the short version and in the full one.
func (a *arena) size(small, full int) int {
	if a.small {
		return small
	}
	return full
}
