package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// stage is a daemon that runs jobs, and the users who submit them.
type stage struct {
	*daemon
	dir    string // of everything
	users  []player
	client *client // of the user who runs this program
	record *record
}

// player is a user with a folder.
type player struct {
	name   string
	uid    int
	folder string
}

// newStage starts a daemon, with several users if this program is root's.
func newStage(o options, before ...func(*stage) error) (*stage, error) {
	berth, err := filepath.Abs(o.berth)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "berth-chaos-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	s := &stage{dir: dir, record: newRecord(nil)}
	s.daemon = &daemon{berth: berth, dir: dir, replace: o.replace, random: rand.New(rand.NewPCG(o.seed, 1)), over: make(chan struct{})}
	names := []string{"nobody", "daemon", "games"}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		names = nil
	}
	for _, name := range append(names, me.Username) {
		found, err := user.Lookup(name)
		if err != nil {
			continue // this machine has no such user
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			return nil, err
		}
		p := player{name: name, uid: uid, folder: filepath.Join(dir, name)}
		if err := errors.Join(os.Mkdir(p.folder, 0o700), os.Chown(p.folder, uid, uid)); err != nil {
			return nil, err
		}
		s.users = append(s.users, p)
	}
	for _, do := range before {
		if err := do(s); err != nil {
			return nil, err
		}
	}
	s.client = newClient(-1, s.socket(), s.over, s.record, nil)
	return s, s.prepare()
}

// close ends the daemon, and removes everything if nothing is wrong.
func (s *stage) close(err error) error {
	s.client.http.CloseIdleConnections()
	err = cmp.Or(err, s.daemon.err())
	s.stop()
	for _, text := range s.record.broken {
		err = errors.Join(err, errors.New("BROKEN "+text))
	}
	if err != nil {
		return fmt.Errorf("%w\nthe log and the state of the daemon are in %s", err, s.dir)
	}
	return os.RemoveAll(s.dir)
}

// submitVerb is the hidden command by which this program starts itself as a submitter.
const submitVerb = "submit"

func submitAs(args []string) error {
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	return submit(args[0], args[1], seed)
}

// jobs has users submit jobs while the daemon is killed.
func jobs(o options) error {
	s, err := newStage(o)
	if err != nil {
		return err
	}
	s.gentle = true
	var children []*exec.Cmd
	var inputs []io.Closer
	findings := make(chan finding, len(s.users))
	for _, u := range s.users {
		cmd := exec.Command("/proc/self/exe", submitVerb, s.socket(), u.folder, strconv.FormatUint(o.seed, 10))
		cmd.Dir, cmd.Stderr = u.folder, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if u.uid != os.Getuid() {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.uid)}
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			return s.close(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return s.close(err)
		}
		children, inputs = append(children, cmd), append(inputs, in)
		go func() {
			var f finding
			if err := json.NewDecoder(out).Decode(&f); err != nil {
				f.Broken = []string{fmt.Sprintf("the submitter of %s ended: %v", u.name, err)}
			}
			for i := range f.Broken {
				f.Broken[i] = u.name + ": " + f.Broken[i]
			}
			findings <- f
		}()
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	each := time.Second
	if o.replace != "" {
		each = 20 * time.Second
	}
	err = s.killAgainAndAgain(ended, o.jobKills, patience*time.Duration(o.jobKills)*each) // from here on the daemon lives
	for i, child := range children {
		if err != nil {
			_ = child.Process.Kill()
		}
		_ = inputs[i].Close()
	}
	for range children {
		f := <-findings
		for what, n := range f.Counts {
			s.record.counts[what] += n
		}
		s.record.broken = append(s.record.broken, f.Broken...)
	}
	for _, child := range children {
		_ = child.Wait() // it has said what it found
	}
	if err == nil {
		s.inspectTheEnd()
	}
	s.print()
	return s.close(cmp.Or(err, s.enough(o.jobKills), s.littleDone()))
}

// littleDone is an error if too little happened to tell anything.
func (s *stage) littleDone() error {
	for _, what := range []string{"submitted", "outcome unknown", "outcome unknown, and submitted", "cancel", "unhold", "done", "failed", "cancelled", "started in their order"} {
		if s.record.counts[what] == 0 && (s.replace == "" || !strings.HasPrefix(what, "outcome unknown")) { // one that is asked to end answers
			return fmt.Errorf("nothing was %s: this run proves little", what)
		}
	}
	return nil
}

func (s *stage) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "users\t%d\n", len(s.users))
	fmt.Fprintf(w, "daemon killed with -9\t%d\n", s.kills-s.asked)
	fmt.Fprintf(w, "daemon asked to end, or replaced\t%d\n", s.asked)
	fmt.Fprintf(w, "restart until it answers\t%s\n", times(s.starts))
	for _, what := range slices.Sorted(maps.Keys(s.record.counts)) {
		fmt.Fprintf(w, "%s\t%d\n", what, s.record.counts[what])
	}
	fmt.Fprintf(w, "broken promises\t%d\n", len(s.record.broken))
	_ = w.Flush()
}

// inspectTheEnd checks that nothing is left when all jobs have ended: no lease, no minder
// and no record of a run.
func (s *stage) inspectTheEnd() {
	runs := filepath.Join(s.state(), "jobs", "runs")
	left := func() string {
		if all := minderProcesses(s.state()); len(all) > 0 {
			return fmt.Sprintf("minders are left: %v", all)
		}
		files, err := os.ReadDir(runs)
		if err != nil || len(files) > 0 {
			return fmt.Sprintf("records of runs are left: %v %v", files, err)
		}
		return ""
	}
	for begun := time.Now(); left() != "" && time.Since(begun) < longest; {
		time.Sleep(50 * time.Millisecond)
	}
	if what := left(); what != "" {
		s.record.complain("at the end %s", what)
	}
	s.client.inspectTheEnd()
}

// minderProcesses returns the minders whose records are below a folder.
func minderProcesses(below string) (all []int) {
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err == nil && isMinder(pid, below) && !isMinder(parent(pid), below) { // a command is a copy of its minder for a moment
			all = append(all, pid)
		}
	}
	return all
}

func isMinder(pid int, below string) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
	words := strings.Split(string(text), "\x00")
	return len(words) > 4 && words[1] == "minder" && strings.HasPrefix(words[3], below)
}

func parent(pid int) (ppid int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may have ended
	_, _ = fmt.Sscanf(string(text[strings.LastIndexByte(string(text), ')')+1:]), " %c %d", new(rune), &ppid)
	return ppid
}
