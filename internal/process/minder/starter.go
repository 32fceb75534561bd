package minder

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// Options say how minders are started.
type Options struct {
	Program string        // berth-serve, by its whole path: it reads logs
	Minder  func() string // the program that becomes a minder; nil: the same. It is asked once, when the first one is started.
	Socket  string        // where minders find the daemon
	Systemd bool          // systemd starts minders, where it runs; if false they are children of this process
}

// Starter starts minders, and the processes that read logs: both change their user, and
// must not be confined as the daemon is.
//
// Where systemd runs, it starts each as a service of its own, so that the daemon's limits,
// its view of the files and its restarts are nothing to them. Otherwise they are children
// of this process, minders in a control group of their own if one can be made.
type Starter struct {
	*Runs
	Options
	minder  func() string
	manager *manager // nil: no systemd
	tag     string   // distinguishes its units and groups from those of another daemon
	readers string   // begins the names of its readers, and of no reader of an earlier daemon

	mu      sync.Mutex
	groups  map[string]cgroup.Group // by run that was started and not removed; a minder that dies early does not name its own
	reading map[int]int             // how many logs are read for each uid
	paces   map[int]*rate.Limiter   // for each uid that has read a log
	counted int                     // the number of the last reader
}

// NewStarter returns a starter for the runs in a folder.
func NewStarter(runs *Runs, o Options) *Starter {
	s := &Starter{Runs: runs, Options: o, tag: tagOf(runs.folder), groups: map[string]cgroup.Group{}, reading: map[int]int{}, paces: map[int]*rate.Limiter{}}
	self, _ := process.Proc().Identify(os.Getpid())
	s.readers = fmt.Sprintf("berth-log-%d-%d", self.PID, self.Start)
	s.minder = func() string { return o.Program }
	if o.Minder != nil {
		s.minder = sync.OnceValue(o.Minder)
	}
	if o.Systemd {
		s.manager = findManager()
	}
	return s
}

// tagOf returns a text that distinguishes the units and control groups of a daemon from
// those of another one, which has another folder. That of the machine needs none.
func tagOf(folder string) string {
	if strings.HasPrefix(folder, "/var/lib/berth/") {
		return ""
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(folder)) // never fails
	return fmt.Sprintf("-%08x", sum.Sum32())
}

// groupPrefix begins the names of the units and of the control groups of runs.
const groupPrefix = "berth-job-"

// unit returns the name of the unit or of the control group of a run. Others can read it,
// so it has numbers alone.
func (s *Starter) unit(run string) string { return groupPrefix + run + s.tag }

// Start starts a minder for a run, and returns which process that is; Watch says when it
// has ended. It does not wait for the minder to begin: the record of the run says when it
// has. A run may be started again while nothing says that its command was started; only
// one minder gets past the lock of its record.
func (s *Starter) Start(ctx context.Context, run string, l runs.Limits) (process.ID, error) {
	if !isRun(run) {
		return process.ID{}, fmt.Errorf("%q is not the name of a run", run)
	}
	flags := []string{Verb, "--runs", s.folder, "--run", run, "--socket", s.Socket}
	if s.manager != nil {
		if err := s.canLimit(l); err != nil {
			return process.ID{}, err
		}
		return s.manager.start(ctx, s.unit(run), "a job of berth, run "+run, append([]string{s.minder()}, flags...), l, nil)
	}
	group, err := cgroup.Make(s.unit(run), cgroup.Limits{CPUs: l.CPUs, Memory: int64(l.HostMemory) << 20})
	if err != nil && l != (runs.Limits{}) {
		return process.ID{}, noLimits(err)
	}
	for _, folder := range group { // without a group, Clear has to look for what is left
		flags = append(flags, "--group", folder)
	}
	id, err := s.child(ctx, s.minder(), flags, group, nil)
	if err != nil {
		for _, folder := range group {
			_ = os.Remove(folder) // it stays if an earlier minder of the run is in it
		}
	} else if len(group) > 0 {
		s.mu.Lock()
		s.groups[run] = group
		s.mu.Unlock()
	}
	return id, err
}

// The arguments that make berth or berth-serve a minder, and berth-serve a reader of logs.
const (
	Verb       = "minder"
	ReaderVerb = "readlog"
)

// child starts a program of berth as a child of this process, away from its terminal, its
// files and its environment. It is started in the control group if the kernel can do that;
// else it has to enter by itself. files become its standard input and output.
func (s *Starter) child(ctx context.Context, program string, arguments []string, group cgroup.Group, files []*os.File) (process.ID, error) {
	if err := ctx.Err(); err != nil {
		return process.ID{}, err
	}
	if folder := group.Open(); folder != nil {
		defer folder.Close()
		if id, err := run(program, arguments, &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(folder.Fd())}, files); err == nil {
			return id, nil
		}
	}
	return run(program, arguments, &syscall.SysProcAttr{Setsid: true}, files)
}

// run starts a program, and does not wait for its end.
func run(program string, arguments []string, how *syscall.SysProcAttr, files []*os.File) (process.ID, error) {
	cmd := exec.Command(program, arguments...)
	cmd.Env, cmd.Dir = []string{"PATH=" + child.PathOf(nil)}, "/"
	cmd.SysProcAttr = how
	if len(files) == 2 {
		cmd.Stdin, cmd.Stdout = files[0], files[1]
	}
	if err := cmd.Start(); err != nil {
		return process.ID{}, fmt.Errorf("start %s: %w", program, err)
	}
	id, _ := process.Proc().Identify(cmd.Process.Pid) // it has not been waited for, so its pid is its own
	go func() { _ = cmd.Wait() }()                    // a record or a pipe says how it ended
	return id, nil
}

// CanLimit returns nil if runs can be limited. Otherwise the error says why not.
func (s *Starter) CanLimit() error {
	if s.manager != nil {
		return s.canLimit(runs.Limits{CPUs: 1, HostMemory: 1})
	}
	return cgroup.CanLimit()
}

// canLimit says whether systemd can limit a run.
func (s *Starter) canLimit(l runs.Limits) error {
	if l == (runs.Limits{}) {
		return nil
	}
	// What a systemd of a user can limit is what that of the machine leaves to it.
	within := ""
	if uid := os.Geteuid(); uid != 0 {
		within = fmt.Sprintf("user.slice/user-%d.slice/user@%d.service", uid, uid)
	}
	missing, err := cgroup.Missing(within)
	if err != nil {
		return noLimits(err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: the systemd of this machine has no controller %s in cgroup v2: start the machine with systemd.unified_cgroup_hierarchy=1", runs.ErrLimits, strings.Join(missing, " and "))
	}
	return nil
}

// noLimits says of an error that it keeps runs from being limited, unless it passes.
func noLimits(err error) error {
	if runs.IsShort(err) {
		return fmt.Errorf("limit the run: %w", err)
	}
	return fmt.Errorf("%w: %w", runs.ErrLimits, err)
}

// Describe says in a few words what starts minders.
func (s *Starter) Describe() string {
	if s.manager != nil {
		return "systemd, each in a unit of its own"
	}
	return "the daemon, as its children"
}

// Watch calls ended once a minder has ended; see process.Table. The zero ID is that of one
// which had ended when Start returned.
func (s *Starter) Watch(id process.ID, ended func()) (stop func(), err error) {
	if id == (process.ID{}) {
		return nil, process.ErrGone
	}
	return process.Proc().Watch(id, ended)
}

// Kill ends a minder. The kernel ends its command with it. It returns process.ErrGone if the
// minder had ended.
func (s *Starter) Kill(id process.ID) error {
	return process.Proc().Signal(kinship.Authority(), id, process.Kill)
}

// Remove ends everything that a run has left, and removes its control group and its
// record. It refuses while the minder lives. It is quick where nothing is left.
func (s *Starter) Remove(run string) error {
	record, alive, err := s.Read(run)
	switch {
	case err != nil:
		return err
	case alive:
		return fmt.Errorf("remove the record of run %s: its minder, process %d, lives", run, record.PID)
	}
	if err := s.clear(run, record); err != nil {
		return err
	}
	return s.Runs.Remove(run)
}

// abandoned is how old the control group of a run must be for others to remove it: by then
// its minder is in it.
const abandoned = 10 * time.Minute

// Sweep removes the control groups of runs that nothing is in any more, also of daemons that
// never came back. Where systemd runs, it does that.
func (s *Starter) Sweep(ctx context.Context, now time.Time) {
	if s.manager == nil {
		cgroup.Sweep(ctx, groupPrefix, now.Add(-abandoned))
	}
}

// clear ends everything that a run has left.
func (s *Starter) clear(run string, r runs.Record) error {
	boot, err := process.Proc().Boot()
	if err != nil {
		return err
	}
	s.mu.Lock()
	made := s.groups[run]
	delete(s.groups, run)
	s.mu.Unlock()
	switch {
	case r.PID == 0:
		return made.Remove() // no command was started
	case r.Boot != boot: // nothing survived
		return nil
	case len(r.Groups) > 0:
		return cgroup.Group(r.Groups).Remove()
	case s.manager != nil && !r.Ended.IsZero():
		return nil // systemd ends the unit with the minder
	case s.manager != nil:
		return s.manager.kill(context.Background(), s.unit(run))
	case !r.Started.IsZero():
		endLeft(r)
	}
	return nil
}

// endLeft kills the processes that have the lease of a run in their environment and that
// its user could kill, except those that another minder has started: the daemon of another
// state folder may have a run with the same lease and fence. It is for runs without a
// control group.
func endLeft(r runs.Record) {
	table := process.Proc()
	ours := kinship.Origin{Lease: r.Lease, Fence: r.Fence, UID: r.UID}
	for _, id := range table.Family() {
		facts, said := table.Inspect(id.ID)
		if r.Lease == "" || facts.Origin != ours {
			continue
		}
		if by, marked := said.Variable(mark); !marked || mark+"="+by == markText(r.Minder()) {
			_ = table.Signal(kinship.OfUser(r.UID), id.ID, process.Kill) // it may have ended
		}
	}
}
