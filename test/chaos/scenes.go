package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// withOwnMounts runs this program again with mounts of its own, if it is root's, and
// returns true when that has ended. The daemon and those who submit see the same files.
func withOwnMounts() (inside bool, err error) {
	const mark = "BERTH_CHAOS_MOUNTS"
	if os.Geteuid() != 0 || os.Getenv(mark) != "" {
		return false, nil
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if cmd.Process == nil {
		fmt.Println("without mounts of its own:", err)
		return false, nil
	}
	return true, err
}

// ownMounts reports whether this program can mount without anybody else seeing it.
func ownMounts() bool { return os.Geteuid() == 0 && os.Getenv("BERTH_CHAOS_MOUNTS") != "" }

// submit submits a job of the user who runs this program, and returns its id, or the
// status that refused it.
func (s *stage) submit(r api.JobRequest) (string, int) {
	me := s.users[len(s.users)-1]
	r.Directory, r.Output = me.folder, "/dev/null"
	r.Lease.Memory, r.Lease.Slots = 100, gpu.Some(0)
	var answer answered
	status, err := s.client.call("POST", "/api/jobs", r, &answer)
	if err != nil {
		s.record.complain("%s was not answered: %v", r.Name, err)
	}
	if status != http.StatusCreated {
		return "", status
	}
	return answer.ID, status
}

// sure is submit for a job that must not be refused.
func (s *stage) sure(r api.JobRequest) string {
	id, status := s.submit(r)
	if id == "" {
		s.record.complain("%s was refused with %d", r.Name, status)
	}
	return id
}

// job returns a job, when it is as it should be or that takes far too long.
func (s *stage) job(id string, is func(api.Job) bool) api.Job {
	var answer answered
	if id == "" {
		return answer.Job // it was refused, and that is noted
	}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		answer = answered{}
		status, err := s.client.call("GET", "/api/jobs/"+id, nil, &answer)
		switch {
		case err == nil && status == http.StatusOK && is(answer.Job):
			return answer.Job
		case time.Since(begun) > patienceWithJobs:
			s.record.complain("%s is %s (%s) after %v: %d %v", id, answer.State, answer.Cause, patienceWithJobs, status, err)
			return answer.Job
		}
	}
}

func over(j api.Job) bool    { return j.Over() }
func settled(j api.Job) bool { return j.Over() || j.State == "held" }
func running(j api.Job) bool { return j.State == "running" && j.PID != 0 || j.Over() }

// lines counts how often the command of a job was started.
func (s *stage) lines(key string) int {
	text, _ := os.ReadFile(filepath.Join(s.users[len(s.users)-1].folder, notes)) // none: nothing was started
	return strings.Count("\n"+string(text), "\n"+key+" ")
}

// command is a command that writes down that it was started.
func command(key, then string) []string {
	return []string{"/bin/sh", "-c", writeOne + then, "sh", key}
}

// minders kills minders at every moment. Their commands end, and nobody starts them again.
func minders(o options) error {
	s, err := newStage(o)
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("1000.%09d", time.Now().Nanosecond()) // an argument of what may be left
	var ids, keys []string
	// Some die as soon as they are seen, others when their command runs. The daemon waits
	// long for one that dies before it has begun.
	const many = 24
	dying, early := map[int]time.Time{}, 10
	for begun := time.Now(); len(ids) < many || !s.allSettled(ids) && time.Since(begun) < 2*patienceWithJobs; time.Sleep(2 * time.Millisecond) {
		if len(ids) < many {
			key := fmt.Sprintf("killed-%d", len(ids))
			ids = append(ids, s.sure(api.JobRequest{Name: key, Command: command(key, "setsid sleep "+mark+" & sleep "+mark)}))
			keys = append(keys, key)
		}
		for _, pid := range minderProcesses(s.dir) {
			at, seen := dying[pid]
			if !seen {
				at = time.Now().Add(time.Duration(s.random.Int64N(int64(600 * time.Millisecond))))
				if early--; early >= 0 {
					at = time.Now()
				}
				dying[pid] = at
			}
			if !time.Now().Before(at) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	states := map[string]int{}
	for i, id := range ids {
		j, n := s.job(id, settled), s.lines(keys[i])
		states[j.State]++
		switch {
		case n > 1:
			s.record.complain("the command of %s was started %d times", id, n)
		case j.State == "lost" || j.State == "held" && j.Code == "not_started" && n == 0:
		default:
			s.record.complain("the minder of %s was killed, and it is %s (%s); its command was started %d times", id, j.State, j.Cause, n)
		}
		if j.Exit.Known() {
			s.record.complain("nobody knows how %s ended, and it has the exit code %v", id, j.Exit)
		}
	}
	left := 0
	for begun := time.Now(); time.Since(begun) < longest; time.Sleep(20 * time.Millisecond) {
		if left = processesWith(mark); left == 0 {
			break
		}
	}
	if left > 0 {
		s.record.complain("%d processes of commands are left", left)
	}
	s.inspectTheEnd()
	fmt.Printf("%d minders killed: %v\n", len(dying), states)
	return s.close(nil)
}

func (s *stage) allSettled(ids []string) bool {
	var list api.Jobs
	status, err := s.client.call("GET", "/api/jobs?limit=1000", nil, &list)
	ended := 0
	for _, j := range list.Jobs {
		if settled(j) {
			ended++
		}
	}
	return err == nil && status == http.StatusOK && ended == len(ids)
}

// processesWith counts the processes with an argument.
func processesWith(argument string) (n int) {
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		text, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline") // it may have ended
		for word := range bytes.SplitSeq(text, []byte{0}) {
			if string(word) == argument {
				n++
			}
		}
	}
	return n
}

// reboot cuts the power, or so it seems: everything dies at once, and the machine comes
// back with another boot id.
func reboot(o options) error {
	if !ownMounts() {
		fmt.Println("skipped: only root can give a machine another boot id")
		return nil
	}
	s, err := newStage(o)
	if err != nil {
		return err
	}
	runs := s.sure(api.JobRequest{Name: "runs", Command: command("runs", "sleep 1000")})
	again := s.sure(api.JobRequest{Name: "again", Requeue: "machine", Command: command("again", `[ "$(grep -c "^again " `+notes+`)" -ge 2 ] || sleep 1000`)})
	held := s.sure(api.JobRequest{Name: "held", Hold: true, Command: command("held", "exit 5")})
	behind := s.sure(api.JobRequest{Name: "behind", After: []string{runs}, Command: command("behind", "exit 0")})
	s.job(runs, running)
	s.job(again, running)
	for s.lines("runs") == 0 || s.lines("again") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if err := s.kill(); err != nil {
		return s.close(err)
	}
	for all := minderProcesses(s.dir); len(all) > 0; all = minderProcesses(s.dir) {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
	boot := filepath.Join(s.dir, "boot")
	const proc = "/proc/sys/kernel/random/boot_id"
	err = cmp.Or(os.WriteFile(boot, []byte("11111111-2222-4333-8444-555555555555\n"), 0o644), syscall.Mount(boot, proc, "", syscall.MS_BIND, ""))
	if err != nil {
		return s.close(err)
	}
	defer func() { _ = syscall.Unmount(proc, 0) }()
	if err := cmp.Or(s.start(), s.wait()); err != nil {
		return s.close(err)
	}
	if j := s.job(runs, over); j.State != "lost" || j.Code != "reboot" || j.Exit.Known() || s.lines("runs") != 1 {
		s.record.complain("after a reboot the job that ran is %s (%s), exit code %v, started %d times", j.State, j.Cause, j.Exit, s.lines("runs"))
	}
	if j := s.job(behind, over); j.State != "cancelled" || s.lines("behind") != 0 {
		s.record.complain("the job behind a lost one is %s (%s)", j.State, j.Cause)
	}
	if j := s.job(again, over); j.State != "done" || j.Try != 2 || s.lines("again") != 2 {
		s.record.complain("after a reboot the job to queue again is %s (%s), try %d, started %d times", j.State, j.Cause, j.Try, s.lines("again"))
	}
	var answer answered
	if status, err := s.client.call("POST", "/api/jobs/"+held+"/unhold", struct{}{}, &answer); err != nil || status != http.StatusOK {
		s.record.complain("unhold was answered with %d %s %v", status, answer.Problem, err)
	}
	if j := s.job(held, over); j.Exit != gpu.Some(5) || s.lines("held") != 1 {
		s.record.complain("after a reboot the held job is %s with exit code %v, started %d times", j.State, j.Exit, s.lines("held"))
	}
	s.inspectTheEnd()
	return s.close(nil)
}

// fullDisk submits jobs while the disk is full, and while there is room for a part of what
// has to be written.
func fullDisk(o options) error {
	if !ownMounts() {
		fmt.Println("skipped: only root can make a disk that is full")
		return nil
	}
	state := ""
	s, err := newStage(o, func(s *stage) error {
		state = s.state()
		return cmp.Or(os.Mkdir(state, 0o700), syscall.Mount("none", state, "tmpfs", 0, "size=24m,mode=0700"))
	})
	if err != nil {
		return err
	}
	taken := map[string]string{}
	refused := map[string]int{}
	fill := filepath.Join(state, "filling")
	for n := range 30 {
		room := []int64{0, 4, 16, 64, 128, 256}[n%6] << 10
		if err := fillDisk(fill, state, room); err != nil {
			return s.close(err)
		}
		key := fmt.Sprintf("full-%d", n)
		environment := []string{"NUMBER=" + strconv.Itoa(n), "LONG=" + strings.Repeat("x", 100<<10)}
		id, status := s.submit(api.JobRequest{Name: key, Command: command(key, "exit 3"), Environment: environment, Hold: true})
		if id != "" {
			taken[key] = id
		} else {
			refused[key] = status
			if status < 500 {
				s.record.complain("on a full disk %s was refused with %d", key, status)
			}
		}
		if err := os.Remove(fill); err != nil {
			return s.close(err)
		}
		if n%10 == 9 {
			if err := cmp.Or(s.kill(), s.start(), s.wait()); err != nil {
				return s.close(err)
			}
		}
	}
	var list api.Jobs
	if status, err := s.client.call("GET", "/api/jobs?limit=1000", nil, &list); err != nil || status != http.StatusOK {
		s.record.complain("the jobs cannot be listed: %d %v", status, err)
	}
	for _, j := range list.Jobs {
		if taken[j.Name] != j.ID {
			s.record.complain("%s was refused on a full disk, and is there as %s", j.Name, j.ID)
		}
	}
	if len(list.Jobs) != len(taken) {
		s.record.complain("%d jobs were acknowledged, and %d are there", len(taken), len(list.Jobs))
	}
	for key, id := range taken {
		var answer answered
		if status, err := s.client.call("POST", "/api/jobs/"+id+"/unhold", struct{}{}, &answer); err != nil || status != http.StatusOK {
			s.record.complain("unhold was answered with %d %s %v", status, answer.Problem, err)
		}
		if j := s.job(id, over); j.Exit != gpu.Some(3) || s.lines(key) != 1 {
			s.record.complain("%s is %s (%s) with exit code %v, started %d times", id, j.State, j.Cause, j.Exit, s.lines(key))
		}
	}
	kept, err := os.ReadDir(filepath.Join(state, "jobs", "environments"))
	if err == nil && len(kept) > len(taken) {
		s.record.complain("%d jobs were acknowledged, and %d environments are kept", len(taken), len(kept))
	}
	if len(refused) == 0 || len(taken) == 0 {
		err = cmp.Or(err, fmt.Errorf("%d jobs were taken and %d refused: this run proves little", len(taken), len(refused)))
	}
	s.inspectTheEnd()
	fmt.Printf("%d jobs submitted, %d refused on a full disk\n", len(taken), len(refused))
	return s.close(cmp.Or(err, syscall.Unmount(state, syscall.MNT_DETACH)))
}

// fillDisk writes a file until the file system of a folder has only so much room left. The
// daemon writes there too, so the room is measured again if it was not there.
func fillDisk(name, folder string, room int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for {
		var about syscall.Statfs_t
		if err := syscall.Statfs(folder, &about); err != nil {
			return err
		}
		free := int64(about.Bavail)*about.Bsize - room
		if free <= 0 {
			return f.Close()
		}
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, free); !errors.Is(err, syscall.ENOSPC) {
			return cmp.Or(err, f.Close())
		}
	}
}
