package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/process"
)

// pidFile names the process of a daemon and when it was started, so that the
// next berth knows it again.
const pidFile = "daemon"

// longestPipe is what is left of the path of a Unix socket for the name that
// MPS gives its own.
const longestPipe = 90

// readyWithin is how long a daemon may take until it answers.
const readyWithin = 5 * time.Second

// find returns the daemon of a device and a user if it runs: one that is known,
// or one that an earlier berth left behind. The caller holds starting.
func (p *Pool) find(k key) *daemon {
	p.mu.Lock()
	d := p.daemons[k]
	p.mu.Unlock()
	if d != nil && p.Processes.Alive(d.id) {
		return d
	}
	dir := p.dirOf(k)
	text, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return nil
	}
	var id process.ID
	if _, err := fmt.Sscan(string(text), &id.PID, &id.Start); err != nil || !p.Processes.Alive(id) {
		return nil
	}
	d, err = p.attend(k, dir, id)
	if err != nil {
		return nil
	}
	return d
}

func (p *Pool) dirOf(k key) string {
	return filepath.Join(p.Dir, strconv.Itoa(k.uid), strings.ReplaceAll(k.uuid, "/", "_"))
}

// start starts a daemon as the user it is for. The caller holds starting.
func (p *Pool) start(ctx context.Context, k key) (*daemon, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	dir := p.dirOf(k)
	if len(pipeOf(dir)) > longestPipe {
		return nil, fmt.Errorf("the path %s is too long for a socket: choose a shorter --state-dir", pipeOf(dir))
	}
	as, err := p.prepare(dir, k.uid)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(control, "-f")
	cmd.Env = environ(dir, k.uuid)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	// A session of its own: an interrupt at berth's terminal is not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: as}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	id, err := p.Processes.Identify(cmd.Process.Pid)
	if err == nil {
		err = ready(ctx, dir, ended)
	} else {
		err = errEnded
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("%w; see %s and %s", err, log.Name(), logOf(dir))
	}
	line := fmt.Sprintf("%d %d\n", id.PID, id.Start)
	if err := os.WriteFile(filepath.Join(dir, pidFile), []byte(line), 0o600); err != nil {
		_ = cmd.Process.Kill()
		return nil, err
	}
	return p.attend(k, dir, id)
}

// attend watches over a daemon that runs.
func (p *Pool) attend(k key, dir string, id process.ID) (*daemon, error) {
	d := &daemon{dir: dir, id: id, uses: map[string]bool{}, idle: time.Now()}
	stop, err := p.Processes.Watch(id, func() { p.died(k, d) })
	if err != nil {
		return nil, err
	}
	d.watch = stop
	p.mu.Lock()
	defer p.mu.Unlock()
	p.daemons[k] = d
	p.nudge() // it is unused until a lease is noted
	return d, nil
}

func (p *Pool) died(k key, d *daemon) {
	p.mu.Lock()
	mourned := p.daemons[k] == d
	if mourned {
		delete(p.daemons, k)
	}
	p.mu.Unlock()
	if mourned && p.Died != nil {
		p.Died(k.uuid, k.uid)
	}
}

// prepare makes the folders of a daemon, and says whom to run it as: nil is
// ourselves. Only the innermost belong to its user. What lies above them stays
// ours, so that nobody can put a link there for root to follow.
func (p *Pool) prepare(dir string, uid int) (*syscall.Credential, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	var as *syscall.Credential
	if own := os.Geteuid(); uid != own {
		if own != 0 {
			return nil, fmt.Errorf("only a daemon of root can start it for user %d", uid)
		}
		var err error
		if as, err = credential(uid); err != nil {
			return nil, err
		}
	}
	for _, folder := range []string{pipeOf(dir), logOf(dir)} {
		err := os.Mkdir(folder, 0o700)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if as != nil {
			if err := os.Chown(folder, int(as.Uid), int(as.Gid)); err != nil {
				return nil, err
			}
		}
	}
	return as, nil
}

// credential is a user with all groups, which may be what opens the device.
func credential(uid int) (*syscall.Credential, error) {
	found, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	as := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			as.Groups = append(as.Groups, uint32(n))
		}
	}
	return as, nil
}

var errEnded = errors.New("it ended at once")

// ready waits until a daemon answers.
func ready(ctx context.Context, dir string, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	d := daemon{dir: dir}
	for {
		err := d.ask(ctx, "get_default_active_thread_percentage")
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
