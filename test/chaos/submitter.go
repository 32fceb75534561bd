package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// submitter is a user who submits jobs. It runs in a process of that user.
type submitter struct {
	*client
	folder  string // of the user
	all     []*submitted
	waiting bool // the user has stopped to submit
}

// submitted is a job that was asked for.
type submitted struct {
	key     string // the name of the job, which no other has
	id      string // empty: not acknowledged
	kind    string
	tasks   []int // numbers of its tasks; 0 alone for a job without an array
	exit    func(task int) int
	starts  int  // how often each command is started
	refused bool // nothing of it may be there
}

// answered is any answer about a job: the job, or a problem.
type answered struct {
	api.Job
	Problem string `json:"detail"`
	Why     string `json:"code"`
}

// The commands write down that they were started before anything else.
const (
	notes    = "started"
	writeOne = `echo "$1 ${BERTH_TASK:-0} $BERTH_JOB $$" >> ` + notes + `; `
)

// submit is the life of one user: it submits jobs until its input ends, waits for all of
// them, and says what it found.
func submit(socket, folder string, seed uint64) error {
	s := &submitter{folder: folder, client: newClient(os.Getuid(), socket, nil, newRecord(nil), rand.New(rand.NewPCG(seed, uint64(os.Getuid()))))}
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	for n := 0; !s.waiting; n++ {
		s.one(n)
		if n >= window {
			s.await(s.all[n-window])
		}
		select {
		case <-stop:
			s.waiting = true
		case <-time.After(time.Duration(s.random.Int64N(int64(100 * time.Millisecond)))):
		}
	}
	s.check()
	return json.NewEncoder(os.Stdout).Encode(finding{s.record.counts, s.record.broken})
}

// window is how many jobs a user has at a time.
const window = 8

// finding is what a submitter says at its end.
type finding struct {
	Counts map[string]int
	Broken []string
}

// one submits one job.
func (s *submitter) one(n int) {
	kinds := []string{"plain", "line", "array", "row", "cancel", "retry", "signal", "behind", "held"}
	kind := kinds[s.random.IntN(len(kinds))]
	exit := []int{0, 0, 1, 3, 42}[s.random.IntN(5)]
	j := &submitted{key: fmt.Sprintf("%s-%d", kind, n), kind: kind, tasks: []int{0}, exit: func(int) int { return exit }, starts: 1}
	r := api.JobRequest{Name: j.key, Directory: s.folder, Output: "/dev/null", Lease: api.LeaseRequest{Memory: 100, Slots: gpu.Some(0)}}
	end := fmt.Sprintf("sleep 0.%d; exit %d", s.random.IntN(3), exit)
	switch kind {
	case "line": // one at a time, of all users
		r.Lease.GPU, r.Lease.Memory = "0", 4500
	case "array", "row":
		r.Array, j.tasks = "1-4%2", []int{1, 2, 3, 4}
		if kind == "row" {
			r.Array = "1-4%1"
		}
		j.exit = func(task int) int { return task % 3 }
		end = "exit $((BERTH_TASK % 3))"
	case "cancel":
		end = "sleep 1000"
	case "retry":
		r.Retry, j.starts, j.exit = 1, 2, func(int) int { return 0 }
		end = `[ "$(grep -c "^$1 " ` + notes + `)" -ge 2 ] || exit 7`
	case "signal":
		end, j.exit = "kill -KILL $$", func(int) int { return 128 + 9 }
	case "behind":
		for _, other := range slices.Backward(s.all) {
			if other.id != "" {
				r.AfterAny = []string{other.id}
				break
			}
		}
	case "held":
		r.Hold = true
	}
	r.Command = []string{"/bin/sh", "-c", writeOne + end, "sh", j.key}
	s.all = append(s.all, j)
	var answer answered
	status, err := s.call("POST", "/api/jobs", r, &answer)
	switch {
	case errors.Is(err, errUnknown):
		s.record.count("outcome unknown")
		return
	case again(status):
		s.record.count("refused: " + answer.Why)
		j.refused = true
		return
	case err != nil || status != http.StatusCreated:
		s.record.complain("%s was answered with %d %s: %s %v", j.key, status, answer.Why, answer.Problem, err)
		j.refused = true
		return
	}
	s.record.count("submitted")
	j.id = answer.ID
	switch kind {
	case "cancel":
		s.pause(400 * time.Millisecond)
		s.change(j, "cancel")
	case "held":
		s.change(j, "unhold")
	}
}

// again reports whether the daemon asks to be asked again: it is busy, or goes away.
func again(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// change changes a job that has not ended, and goes on until somebody answers.
func (s *submitter) change(j *submitted, to string) {
	for tries := 0; ; tries++ {
		var answer answered
		status, err := s.call("POST", "/api/jobs/"+j.id+"/"+to, struct{}{}, &answer)
		switch {
		case errors.Is(err, errUnknown), again(status):
			s.record.count("outcome unknown")
			continue
		case status == http.StatusOK:
			s.record.count(to)
		case tries > 0 && status == http.StatusConflict: // an earlier try got through
		default:
			s.record.complain("%s of %s was answered with %d %s: %s %v", to, j.id, status, answer.Why, answer.Problem, err)
		}
		return
	}
}

// await returns when a job has ended, with its tasks.
func (s *submitter) await(j *submitted) (api.Job, bool) {
	if j.id == "" {
		return api.Job{}, false
	}
	for begun := time.Now(); time.Since(begun) < patienceWithJobs; {
		var answer answered
		status, err := s.call("GET", "/api/jobs/"+j.id, nil, &answer)
		switch {
		case errors.Is(err, errUnknown), again(status):
			continue
		case err != nil || status != http.StatusOK:
			s.record.complain("%s was acknowledged, and asking for it is answered with %d %s: %s %v", j.id, status, answer.Why, answer.Problem, err)
			return api.Job{}, false
		case answer.Over():
			return answer.Job, true
		}
		time.Sleep(50 * time.Millisecond)
	}
	var answer answered
	_, err := s.call("GET", "/api/jobs/"+j.id, nil, &answer)
	s.record.complain("%s does not end: it is %s (%s) %+v %v", j.id, answer.State, answer.Cause, answer.Tasks, err)
	return api.Job{}, false
}

// patienceWithJobs is far longer than any job takes.
const patienceWithJobs = time.Minute

// check holds what the daemon says at the end, and what the commands wrote down, against
// what was asked for.
func (s *submitter) check() {
	known := s.listed()
	started, order := s.started()
	for _, j := range s.all {
		ids := known[j.key]
		switch {
		case len(ids) > 1:
			s.record.complain("%s was submitted once, and is there as %v", j.key, ids)
		case j.refused && len(ids) > 0:
			s.record.complain("%s was refused, and is there", j.key)
		case j.id == "" && len(ids) == 1:
			s.record.count("outcome unknown, and submitted")
			j.id = ids[0]
			switch j.kind {
			case "cancel":
				s.change(j, "cancel")
			case "held":
				s.change(j, "unhold")
			}
		}
	}
	for _, j := range s.all {
		if got, ended := s.await(j); ended {
			started, order = s.started()
			s.judge(j, got, started[j.key])
		} else if n := len(started[j.key]); j.id == "" && n > 0 {
			s.record.complain("%s is no job, and its command was started", j.key)
		}
	}
	s.judgeOrder(order)
}

// listed returns the ids of the jobs of this user, by name.
func (s *submitter) listed() map[string][]string {
	known := map[string][]string{}
	first := fmt.Sprintf("/api/jobs?limit=1000&user=%d", os.Getuid())
	for path := first; path != ""; {
		var list struct {
			api.Jobs
			Problem string `json:"detail"`
		}
		status, err := s.call("GET", path, nil, &list)
		switch {
		case errors.Is(err, errUnknown), again(status):
			continue
		case err != nil || status != http.StatusOK:
			s.record.complain("the jobs cannot be listed: %d %s %v", status, list.Problem, err)
			return known
		}
		for _, j := range list.Jobs.Jobs {
			known[j.Name] = append(known[j.Name], j.ID)
		}
		path = ""
		if list.Next != "" {
			path = first + "&after=" + url.QueryEscape(list.Next)
		}
	}
	return known
}

// started returns which commands wrote down that they were started: for each job and task
// how often, and the keys in the order of their lines.
func (s *submitter) started() (map[string]map[string]int, []string) {
	counts, order := map[string]map[string]int{}, []string{}
	text, _ := os.ReadFile(filepath.Join(s.folder, notes)) // none: nothing was started
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 4 {
			s.record.complain("a command wrote %q", lines.Text())
			continue
		}
		key, task := words[0], words[1]
		if counts[key] == nil {
			counts[key] = map[string]int{}
		}
		counts[key][task]++
		order = append(order, key+" "+task)
	}
	return counts, order
}

// judge checks one job that has ended.
func (s *submitter) judge(j *submitted, got api.Job, started map[string]int) {
	list := got.List
	if len(j.tasks) == 1 {
		list = []api.Job{got}
	}
	if len(list) != len(j.tasks) {
		s.record.complain("%s has %d tasks, and %d are shown", j.id, len(j.tasks), len(list))
		return
	}
	for i, task := range j.tasks {
		t, n := list[i], started[fmt.Sprint(task)]
		s.record.count(t.State)
		if j.kind == "cancel" {
			if t.State != "cancelled" || n > 1 {
				s.record.complain("%s was cancelled; it is %s (%s), and was started %d times", t.ID, t.State, t.Cause, n)
			}
			continue
		}
		state := "failed"
		if j.exit(task) == 0 {
			state = "done"
		}
		if n != j.starts {
			s.record.complain("the command of %s was started %d times, not %d; it is %s (%s)", t.ID, n, j.starts, t.State, t.Cause)
		}
		if t.State != state || t.Exit != gpu.Some(j.exit(task)) {
			s.record.complain("%s ended with exit code %d; it is %s with %v (%s)", t.ID, j.exit(task), t.State, t.Exit, t.Cause)
		}
	}
}

// judgeOrder checks that jobs of this user that cannot run side by side were started in
// the order in which they were submitted, and so were the tasks of a row.
func (s *submitter) judgeOrder(order []string) {
	var want, line []string
	for _, j := range s.all {
		if j.kind == "line" && j.id != "" {
			want = append(want, j.key+" 0")
		}
		if j.kind == "row" && j.id != "" {
			row := slices.DeleteFunc(slices.Clone(order), func(each string) bool { return !strings.HasPrefix(each, j.key+" ") })
			if !slices.IsSorted(row) {
				s.record.complain("the tasks of %s were started in the order %v", j.id, row)
			}
		}
	}
	for _, each := range order {
		if strings.HasPrefix(each, "line-") {
			line = append(line, each)
		}
	}
	s.record.counts["started in their order"] += len(line)
	if !slices.Equal(line, want) {
		s.record.complain("jobs that wait for the same were submitted in the order %v and started in the order %v", want, line)
	}
}
