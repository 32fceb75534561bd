package minder

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// place is everything that a command needs to start. It is made with the rights of the
// user.
type place struct {
	program string
	command []string
	environ []string
	output  *os.File
	errors  *os.File // the same as output unless another file was asked for
}

// prepare goes to the folder of the command, opens its log and makes its environment. This
// process must be one of the user.
func (p person) prepare(order api.MinderOrder) (*place, error) {
	syscall.Umask(order.Umask & 0o777)
	here, err := p.enter(order.Directory)
	if err != nil {
		return nil, err
	}
	at := &place{command: order.Command}
	at.environ = order.Environment
	if at.environ == nil {
		at.environ = p.plainEnvironment()
	}
	at.environ = slices.Concat(withoutVariables(at.environ, append([]string{"PWD"}, order.Variables...)), order.Variables, []string{"PWD=" + here})
	if at.program, err = child.Program(order.Command[0], child.PathOf(at.environ)); err != nil {
		return nil, err
	}
	if l := order.Lease; l.Launch != nil {
		at.environ, _ = launch.Environment(l, l.Launch.Devices, launch.Ladder{
			Context: l.Launch.Context, MPS: l.Launch.MPS, Compute: launch.Least(l.Launch.Compute, order.Compute), Torch: child.Torch(at.program, at.environ), Socket: order.Socket,
			Isolation: l.Launch.Isolation, ClearedBy: l.Launch.ClearedBy,
		}, at.environ)
	}
	ours, err := markOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	at.environ = append(withoutVariables(at.environ, []string{ours}), ours)
	if at.output, err = p.openLog(order.Output, order.Log, here, order.Parts); err != nil {
		return nil, err
	}
	at.errors = at.output
	if order.Error != "" && order.Error != order.Output {
		if at.errors, err = openFile(below(here, order.Error), 0); err != nil {
			at.close()
			return nil, fmt.Errorf("open the file for its errors: %w", err)
		}
	}
	return at, nil
}

// enter goes to the folder of the command and returns it.
func (p person) enter(folder string) (string, error) {
	if folder == "" {
		folder = p.home
		if info, err := os.Stat(folder); folder == "" || err != nil || !info.IsDir() {
			var err error
			if folder, err = p.stateFolder(); err != nil {
				return "", fmt.Errorf("the user has no home, and no folder can be made instead: %w", err)
			}
		}
	}
	if !filepath.IsAbs(folder) {
		return "", fmt.Errorf("the folder %s of the job is not absolute", folder)
	}
	if err := os.Chdir(folder); err != nil {
		return "", fmt.Errorf("go to the folder of the job: %w", err)
	}
	return folder, nil
}

// stateFolder returns the folder in which the user keeps the state of berth, and makes it
// if needed. Without a home it is a folder among those that survive a reboot, which must
// belong to the user and to nobody else: others can make one there, too.
func (p person) stateFolder() (string, error) {
	if info, err := os.Stat(p.home); p.home != "" && err == nil && info.IsDir() {
		folder := filepath.Join(p.home, ".local", "state", "berth")
		if os.MkdirAll(folder, 0o700) == nil {
			return folder, nil
		}
	}
	folder := "/var/tmp/berth-" + strconv.Itoa(p.uid)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	var about unix.Stat_t
	if err := unix.Lstat(folder, &about); err != nil {
		return "", &fs.PathError{Op: "lstat", Path: folder, Err: err}
	}
	if about.Mode&unix.S_IFMT != unix.S_IFDIR || int(about.Uid) != p.uid || about.Mode&0o077 != 0 {
		return "", fmt.Errorf("%s is not a folder of user %d alone", folder, p.uid)
	}
	return folder, nil
}

// openLog opens the file for the output: the one that was asked for, or one in the folder
// of the command, or else one in the state folder of the user.
func (p person) openLog(asked, name, here string, parts int) (*os.File, error) {
	if asked != "" {
		f, err := openFile(below(here, asked), 0)
		if err != nil {
			return nil, fmt.Errorf("open the file for its output: %w", err)
		}
		return f, nil
	}
	path := filepath.Join(here, filepath.Base(name))
	beginPart(path, parts)
	f, err := openFile(path, unix.O_NOFOLLOW) // its name is known, so others may have put a link there
	if err == nil {
		return f, nil
	}
	folder, other := p.stateFolder()
	if other == nil {
		path = filepath.Join(folder, filepath.Base(name))
		beginPart(path, parts)
		f, other = openFile(path, unix.O_NOFOLLOW)
	}
	if other != nil {
		return nil, fmt.Errorf("open the log: %w; %w", err, other)
	}
	return f, nil
}

func below(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// openFile opens a file to append to. It does not wait for a reader of a pipe, and takes
// no terminal. How has further flags for open.
func openFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOCTTY|unix.O_NONBLOCK|how, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(int(f.Fd()), false); err != nil { // programs do not expect it
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// plainEnvironment returns the environment of a command that was submitted without one.
func (p person) plainEnvironment() []string {
	home := cmp.Or(p.home, "/")
	list := []string{"HOME=" + home, "PATH=" + child.PathOf(nil), "SHELL=" + p.shell()}
	if p.name != "" {
		list = append(list, "USER="+p.name, "LOGNAME="+p.name)
	}
	return list
}

// shell returns the login shell of the user. Go's standard library does not know it.
func (p person) shell() string {
	const usual = "/bin/sh"
	if p.name == "" {
		return usual
	}
	fields := strings.Split(said("getent", "passwd", p.name), ":") // a database that hangs is not waited for
	if len(fields) < 7 {
		return usual
	}
	return cmp.Or(fields[6], usual)
}

// withoutVariables returns an environment without the variables that others set.
func withoutVariables(environ, others []string) []string {
	names := map[string]bool{}
	for _, o := range others {
		name, _, _ := strings.Cut(o, "=")
		names[name] = true
	}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return names[name]
	})
}

// mark is the variable that names the minder of a process. Two daemons of one user can
// have runs with the same lease and fence, and no two minders of a boot are alike.
const mark = process.MinderVariable

// markOf returns the variable for the programs of a minder.
func markOf(pid int) (string, error) {
	id, err := process.Proc().Identify(pid)
	return markText(id), err
}

func markText(minder process.ID) string {
	return fmt.Sprintf("%s=%d-%d", mark, minder.PID, minder.Start)
}

// start starts the command in a session of its own, without a terminal. It dies with this
// thread.
func (at *place) start() (int, error) {
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer nothing.Close()
	how := &os.ProcAttr{
		Env: at.environ, Files: []*os.File{nothing, at.output, at.errors},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	started, err := os.StartProcess(at.program, at.command, how)
	if errors.Is(err, syscall.ENOEXEC) {
		// The script has no first line that names its interpreter, so a shell runs it.
		started, err = os.StartProcess("/bin/sh", append([]string{"sh", at.program}, at.command[1:]...), how)
	}
	switch {
	case errors.Is(err, syscall.ENOENT): // the file exists
		return 0, &child.ProgramError{Name: at.program, Reason: "the interpreter that its first line names, or its loader, does not exist", Exit: child.ExitNotFound}
	case runs.IsShort(err):
		return 0, err
	case err != nil:
		return 0, &child.ProgramError{Name: at.program, Reason: err.Error(), Exit: child.ExitNotExecutable}
	}
	return started.Pid, nil
}

func (at *place) close() {
	_ = at.output.Close()
	if at.errors != nil && at.errors != at.output {
		_ = at.errors.Close()
	}
}
