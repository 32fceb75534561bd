package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// setup says how to start a daemon. The zero value starts a daemon of root with
// two simulated devices.
type setup struct {
	devices string
	config  string   // text of berth.yaml
	flags   []string // of serve
	socket  string   // empty: in a folder of its own
	uid     int
	stall   bool   // the log is read up to the line "berth is up", and no further
	guests  bool   // real processes can use its devices, see daemon.guest
	passwd  string // a file that replaces /etc/passwd; empty: none
	asUnit  bool   // it has the priority that deploy/systemd/berth.service gives it
}

// daemon is a berth under attack.
type daemon struct {
	arena  *arena
	cmd    *exec.Cmd
	dir    string
	socket door
	tcp    door
	exited chan struct{}
	logged chan struct{} // closed when the log has ended

	mu  sync.Mutex // guards what follows
	log strings.Builder
	len int // of the whole log
}

// kept is how many bytes of the log a daemon keeps.
const kept = 4 << 20

var listening = regexp.MustCompile(`msg="berth is up".* listen=(\S+)`)

// serve starts a daemon and returns when it is up.
func (a *arena) serve(ctx context.Context, s setup) (*daemon, error) {
	a.mu.Lock()
	name := fmt.Sprintf("daemon-%d", len(a.started))
	a.mu.Unlock()
	dir, err := a.folder(name, 0o755, s.uid)
	if err != nil {
		return nil, err
	}
	return a.serveIn(ctx, dir, s)
}

// serveIn starts a daemon in the folder of one that has ended.
func (a *arena) serveIn(ctx context.Context, dir string, s setup) (*daemon, error) {
	d := &daemon{arena: a, dir: dir, socket: door{Network: "unix", Address: filepath.Join(dir, "s")}, exited: make(chan struct{}), logged: make(chan struct{})}
	if s.socket != "" {
		d.socket.Address = s.socket
	}
	if s.devices == "" {
		s.devices = "sim:2"
	}
	config := filepath.Join(dir, "berth.yaml")
	if err := errors.Join(os.WriteFile(config, []byte(s.config+"\n"), 0o600), os.Chown(config, s.uid, s.uid)); err != nil {
		return nil, err
	}
	args := append([]string{a.berth, "serve", "--config", config, "--devices", s.devices, "--state-dir", filepath.Join(dir, "state"),
		"--socket", d.socket.Address, "--listen", "127.0.0.1:0"}, s.flags...)
	if s.asUnit {
		args = append([]string{"nice", "-n", "-5"}, args...)
	}
	var flags uintptr
	if s.passwd != "" {
		args = append([]string{a.self, childCommand, "masked", s.passwd}, args...)
		flags = syscall.CLONE_NEWNS
	}
	d.cmd = as(exec.Command(args[0], args[1:]...), s.uid, flags)
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if s.guests {
		d.cmd.Env = append(d.cmd.Env, "BERTH_SIM_GUESTS="+filepath.Join(dir, "guests"))
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	d.cmd.Stderr = writer
	wait, err := a.start(d.cmd)
	_ = writer.Close()
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	go func() { _ = wait(); close(d.exited) }()
	up := make(chan string, 1)
	go d.read(reader, up, s.stall)
	select {
	case address := <-up:
		d.tcp = door{Network: "tcp", Address: address}
		return d, nil
	case <-d.exited:
		select {
		case <-d.logged: // its last words
		case <-time.After(10 * time.Second):
		}
		return nil, fmt.Errorf("the daemon ended at its start:\n%s", d.logText())
	case <-time.After(20 * time.Second):
		return nil, fmt.Errorf("the daemon does not come up:\n%s", d.logText())
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read reads the log, and sends the address on which the daemon listens.
func (d *daemon) read(from *os.File, up chan<- string, stall bool) {
	defer close(d.logged)
	in := bufio.NewReaderSize(from, 1<<16)
	for {
		line, err := in.ReadString('\n')
		d.mu.Lock()
		d.len += len(line)
		if d.log.Len() < kept {
			d.log.WriteString(line)
		}
		d.mu.Unlock()
		if found := listening.FindStringSubmatch(line); found != nil {
			up <- found[1]
			if stall {
				<-d.exited
				_ = from.Close()
				return
			}
		}
		if err != nil {
			_ = from.Close()
			return
		}
	}
}

func (d *daemon) logText() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func (d *daemon) logLength() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.len
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.exited
}

// doors returns the addresses of the daemon.
func (d *daemon) doors() []door { return []door{d.socket, d.tcp} }

// status reads a number from /proc/PID/status.
func (d *daemon) status(field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.pid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/PID/status of the daemon has no %s", field)
}

// peakMB returns the peak memory of the daemon.
func (d *daemon) peakMB() (int64, error) {
	kb, err := d.status("VmHWM")
	return kb >> 10, err
}

// files counts the open files of the daemon.
func (d *daemon) files() (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.pid()))
	return len(list), err
}

// guest makes a real process appear as a user of a simulated device.
func (d *daemon) guest(uuid string, pid, uid, megabytes int) error {
	dir := filepath.Join(d.dir, "guests", uuid)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// The file appears complete and with its owner, or not at all.
	name := filepath.Join(dir, strconv.Itoa(pid))
	temp := filepath.Join(d.dir, "guest-"+strconv.Itoa(pid))
	return errors.Join(
		os.WriteFile(temp, fmt.Appendf(nil, `{"memory_mb":%d,"load":1}`, megabytes), 0o644),
		os.Chown(temp, uid, uid), os.Rename(temp, name))
}
