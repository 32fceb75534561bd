// Command systemd tries minders under a real systemd.
//
// It is three programs. "systemd serve" stands for the daemon: it runs in berth's own unit,
// with everything that the unit forbids, and starts minders. "systemd check" runs outside
// of that unit, submits runs to it, restarts and kills it meanwhile, and looks what became
// of them. It leaves a run running, and "systemd rebooted" looks what a shutdown of the
// machine made of that. test/systemd/run.sh boots a machine for them.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/process/runs"
)

const (
	socket = "/run/berth/berth.sock"
	state  = "/var/lib/berth"
	unit   = "berth.service"
)

func main() {
	err := errors.New("usage: systemd serve | check | rebooted")
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "serve":
			err = serve()
		case "check":
			err = check()
		case "rebooted":
			err = rebooted()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemd:", err)
		os.Exit(1)
	}
}

// serve starts minders and gives them their orders, which are files.
func serve() error {
	for _, folder := range []string{"orders", "runs"} {
		if err := os.MkdirAll(filepath.Join(state, folder), 0o700); err != nil {
			return err
		}
	}
	opened, err := minder.Open(filepath.Join(state, "runs"))
	if err != nil {
		return err
	}
	starter := minder.NewStarter(opened, minder.Options{Program: "/usr/local/bin/berth-serve", Socket: socket, Systemd: true})
	doors := http.NewServeMux()
	order := func(run string) string { return filepath.Join(state, "orders", run) }
	doors.HandleFunc("POST /api/jobs/minder", func(w http.ResponseWriter, r *http.Request) {
		var asked api.MinderRequest
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &asked)
		}
		if err == nil {
			text, err = os.ReadFile(order(asked.Run))
		}
		answer(w, json.RawMessage(text), err)
	})
	doors.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) {
		var o api.MinderOrder
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err == nil {
			err = os.WriteFile(order(o.Run), text, 0o600)
		}
		memory, _ := strconv.Atoi(r.FormValue("memory")) // 0: no limit
		if err == nil {
			_, err = starter.Start(r.Context(), o.Run, runs.Limits{HostMemory: gpu.MiB(memory)})
		}
		answer(w, "started", err)
	})
	doors.HandleFunc("GET /record", func(w http.ResponseWriter, r *http.Request) {
		record, alive, err := starter.Read(r.FormValue("run"))
		answer(w, seen{record, alive}, err)
	})
	doors.HandleFunc("POST /remove", func(w http.ResponseWriter, r *http.Request) {
		answer(w, "removed", starter.Remove(r.FormValue("run")))
	})
	doors.HandleFunc("GET /log", func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		uid, _ := strconv.Atoi(r.FormValue("uid"))
		err := starter.ReadLog(r.Context(), minder.Reading{User: r.FormValue("user"), UID: uid, Path: r.FormValue("path")}, nil, nil, &text)
		answer(w, text.String(), err)
	})
	doors.HandleFunc("GET /limits", func(w http.ResponseWriter, r *http.Request) { answer(w, "can limit", starter.CanLimit()) })
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return http.Serve(listener, doors)
}

// seen is what the record of a run says, and whether its minder lives.
type seen struct {
	runs.Record
	Alive bool `json:"alive"`
}

func answer(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		value = map[string]any{"status": 500, "title": "no", "detail": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(value) // nobody else to tell
}

// checker asks the other program.
type checker struct {
	http.Client
	failed int
	runs   int
}

func newChecker() *checker {
	return &checker{Client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			var conn net.Conn
			err := error(nil)
			for range 200 { // it may be starting
				if conn, err = d.DialContext(ctx, "unix", socket); err == nil {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			return conn, err
		},
		DisableKeepAlives: true,
	}}}
}

func check() error {
	c := newChecker()
	for _, one := range []struct {
		what string
		try  func() error
	}{
		{"a run has a unit of its own, in berth.slice, and leaves nothing", c.unitOfItsOwn},
		{"a run is as free as a shell: /tmp, the home, set-user-id programs, all system calls", c.free},
		{"a run goes on while the daemon is restarted, and its exit code is there", c.restart},
		{"a run goes on while the daemon is killed", c.killDaemon},
		{"a minder waits for a daemon that is not there", c.waits},
		{"a killed minder takes everything of its run with it, also what became root", c.killMinder},
		{"a program that is left behind ends with the run", c.leftBehind},
		{"a log in /tmp is read with the rights of the user, from a daemon with a /tmp of its own", c.logs},
		{"a stopped unit ends the run by SIGTERM, and the end is written down", c.stopUnit},
		{"limits hold, or are refused with the reason", c.limits},
		{"a run is left for the shutdown", c.forShutdown},
	} {
		if err := one.try(); err != nil {
			c.failed++
			fmt.Printf("not ok  %s: %v\n", one.what, err)
			continue
		}
		fmt.Printf("ok      %s\n", one.what)
	}
	if c.failed > 0 {
		return fmt.Errorf("%d failed", c.failed)
	}
	return nil
}

// ask sends a request, and reads the answer into a T.
func ask[T any](c *checker, method, path string, body any) (T, error) {
	var into T
	text, err := json.Marshal(body)
	if err != nil {
		return into, err
	}
	request, err := http.NewRequest(method, "http://daemon"+path, bytes.NewReader(text))
	if err != nil {
		return into, err
	}
	said, err := c.Do(request)
	if err != nil {
		return into, err
	}
	defer said.Body.Close()
	answer, err := io.ReadAll(said.Body)
	if err == nil && said.StatusCode != http.StatusOK {
		err = errors.New(string(answer))
	}
	if err == nil {
		err = json.Unmarshal(answer, &into)
	}
	return into, err
}

// The user of the runs. run.sh makes it.
const (
	user = "worker"
	uid  = 1234
	home = "/home/worker"
)

// start starts a script as a run, and returns the name of the run.
func (c *checker) start(script, flags string) (string, error) {
	c.runs++
	run := fmt.Sprintf("%d.0.1", c.runs)
	_, err := ask[string](c, http.MethodPost, "/start"+flags, api.MinderOrder{
		Version: 1, Run: run, User: user, UID: uid, Command: []string{"/bin/sh", "-c", script}, Umask: 0o22, Log: "berth-" + run + ".log",
		Lease: api.Lease{ID: "job-1", Fence: 1},
	})
	return run, err
}

// until asks about a run until something is true of its record.
func (c *checker) until(run string, true func(seen) bool) (seen, error) {
	for range 600 {
		now, err := ask[seen](c, http.MethodGet, "/record?run="+run, nil)
		if err == nil && true(now) {
			return now, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	now, err := ask[seen](c, http.MethodGet, "/record?run="+run, nil)
	return now, fmt.Errorf("after half a minute its record is %+v, %v", now, err)
}

func ended(s seen) bool   { return !s.Alive && !s.Ended.IsZero() }
func started(s seen) bool { return !s.Started.IsZero() }

// log returns what a run wrote, without its last line break.
func log(s seen) string {
	text, _ := os.ReadFile(s.Output)
	return strings.TrimSpace(string(text))
}

// run runs a script to its end.
func (c *checker) run(script string) (seen, error) {
	run, err := c.start(script, "")
	if err != nil {
		return seen{}, err
	}
	return c.until(run, ended)
}

func command(words ...string) (string, error) {
	text, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, text)
	}
	return strings.TrimSpace(string(text)), err
}

// want returns an error unless a text is as wanted.
func want(what, got, wanted string) error {
	if got != wanted {
		return fmt.Errorf("%s is %q, want %q", what, got, wanted)
	}
	return nil
}

func (c *checker) unitOfItsOwn() error {
	run, err := c.start("sed -n s/^0:://p /proc/self/cgroup; pwd; id -un; exit 7", "")
	if err != nil {
		return err
	}
	s, err := c.until(run, ended)
	if err != nil {
		return err
	}
	unit := "berth-job-" + run + ".service"
	for range 100 { // systemd notices the end a moment later
		if left, _ := command("systemctl", "show", "-p", "LoadState", "--value", unit); left == "not-found" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	left, _ := command("systemctl", "show", "-p", "LoadState", "--value", unit)
	_, removed := ask[string](c, http.MethodPost, "/remove?run="+run, nil)
	return errors.Join(want("its log", log(s), "/berth.slice/"+unit+"\n"+home+"\n"+user), want("its exit code", fmt.Sprint(s.Exit.Or(-1)), "7"),
		want("its unit", left, "not-found"), removed)
}

func (c *checker) free() error {
	s, err := c.run(`umask; touch /tmp/of-a-run ~/of-a-run && echo wrote
		sudo -n id -u 2>/dev/null
		grep -E '^(NoNewPrivs|Seccomp|CapBnd|SigIgn):' /proc/self/status | tr -d '\t'
		nice; cat /proc/self/oom_score_adj; ulimit -n; unshare -U true && echo namespaces; env | cut -d= -f1 | sort | tr '\n' ' '`)
	if err != nil {
		return err
	}
	full, err := os.ReadFile("/proc/1/status") // of systemd itself
	if err != nil {
		return err
	}
	bounding := ""
	for line := range strings.Lines(string(full)) {
		if rest, is := strings.CutPrefix(line, "CapBnd:"); is {
			bounding = strings.TrimSpace(rest)
		}
	}
	got := strings.Split(log(s), "\n")
	wanted := []string{"0022", "wrote", "0", "SigIgn:0000000000000000", "CapBnd:" + bounding, "NoNewPrivs:0", "Seccomp:", "0", "0"}
	if len(got) < len(wanted)+2 {
		return fmt.Errorf("its log is %q", got)
	}
	for i, w := range wanted {
		if i == 6 {
			continue // what holds for the whole machine of this test holds for the run too
		}
		if err := want(fmt.Sprintf("line %d of its log", i+1), got[i], w); err != nil {
			return fmt.Errorf("%w (%q)", err, got)
		}
	}
	return want("the last line of its log", got[len(got)-1], "HOME LOGNAME PATH PWD SHELL USER")
}

func (c *checker) restart() error {
	return c.survives(func() error {
		_, err := command("systemctl", "restart", unit)
		return err
	})
}

func (c *checker) killDaemon() error {
	return c.survives(func() error {
		_, err := command("systemctl", "kill", "-s", "KILL", "--kill-whom=main", unit)
		return err
	})
}

// survives starts a run that waits at a pipe, does something to the daemon, and lets the
// run end.
func (c *checker) survives(what func() error) error {
	gate := fmt.Sprintf("/tmp/gate-%d", c.runs)
	if err := errors.Join(unix.Mkfifo(gate, 0o600), os.Chown(gate, uid, uid)); err != nil {
		return err
	}
	run, err := c.start("echo once; read line < "+gate+"; exit 11", "")
	if err != nil {
		return err
	}
	open, err := os.OpenFile(gate, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer open.Close()
	if err := what(); err != nil {
		return err
	}
	if now, err := c.until(run, started); err != nil || !now.Alive {
		return fmt.Errorf("afterwards: %+v, %v", now, err)
	}
	fmt.Fprintln(open, "go")
	s, err := c.until(run, ended)
	return errors.Join(err, want("its exit code", fmt.Sprint(s.Exit.Or(-1)), "11"), want("its log", log(s), "once"))
}

func (c *checker) waits() error {
	run, err := c.start("echo begun", "")
	if err != nil {
		return err
	}
	// The order of the next one is there, and no daemon.
	if _, err := c.until(run, ended); err != nil {
		return err
	}
	c.runs++
	next := fmt.Sprintf("%d.0.1", c.runs)
	text, err := os.ReadFile(filepath.Join(state, "orders", run))
	if err == nil {
		err = os.WriteFile(filepath.Join(state, "orders", next), bytes.ReplaceAll(text, []byte(`"`+run+`"`), []byte(`"`+next+`"`)), 0o600)
	}
	if err != nil {
		return err
	}
	if _, err := command("systemctl", "stop", unit); err != nil {
		return err
	}
	if _, err := command("systemd-run", "--unit", "berth-job-"+next, "--slice", "berth", "/usr/local/bin/berth-serve", "minder",
		"--runs", filepath.Join(state, "runs"), "--run", next, "--socket", socket); err != nil {
		return err
	}
	time.Sleep(time.Second) // it asks several times meanwhile
	if _, err := command("systemctl", "start", unit); err != nil {
		return err
	}
	s, err := c.until(next, ended)
	return errors.Join(err, want("its exit code", fmt.Sprint(s.Exit.Or(-1)), "0"), want("its failure", s.Failure, ""))
}

func (c *checker) killMinder() error {
	marker := strconv.Itoa(100000 + c.runs)
	run, err := c.start("sleep "+marker+" & setsid -f sleep "+marker+"; sudo -n sleep "+marker+" & wait", "")
	if err != nil {
		return err
	}
	s, err := c.until(run, func(s seen) bool { return started(s) && len(living(marker)) == 3 })
	if err != nil {
		return fmt.Errorf("%w; living: %v", err, living(marker))
	}
	if err := process.Proc().Signal(kinship.Authority(), process.ID{PID: s.PID, Start: s.Start}, process.Kill); err != nil {
		return err
	}
	s, err = c.until(run, func(s seen) bool { return !s.Alive })
	if err != nil {
		return err
	}
	if !s.Ended.IsZero() || s.Started.IsZero() {
		return fmt.Errorf("its record is %+v", s)
	}
	if _, err := ask[string](c, http.MethodPost, "/remove?run="+run, nil); err != nil {
		return err
	}
	for range 100 { // what is killed is gone a moment later
		if len(living(marker)) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("these live: %v", living(marker))
}

// living returns the processes that sleep for this many seconds.
func living(marker string) (pids []int) {
	for _, pid := range process.Proc().PIDs() {
		if words := process.Proc().Command(pid); len(words) == 2 && words[1] == marker {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c *checker) leftBehind() error {
	marker := strconv.Itoa(200000 + c.runs)
	s, err := c.run("sleep " + marker + " & setsid -f sleep " + marker + "; echo ended")
	if left := living(marker); len(left) > 0 {
		return fmt.Errorf("these live: %v", left)
	}
	return errors.Join(err, want("its log", log(s), "ended"))
}

func (c *checker) logs() error {
	s, err := c.run("echo secret > /tmp/of-the-worker; chmod 600 /tmp/of-the-worker; cat /tmp/of-the-worker")
	if err != nil {
		return err
	}
	read := func(path string) (string, error) {
		return ask[string](c, http.MethodGet, fmt.Sprintf("/log?user=%s&uid=%d&path=%s", user, uid, path), nil)
	}
	text, err := read("/tmp/of-the-worker")
	if err != nil {
		return err
	}
	own, err := read(s.Output)
	if err != nil {
		return err
	}
	if text, err := read("/etc/shadow"); err == nil {
		return fmt.Errorf("the user reads /etc/shadow: %q", text)
	}
	return errors.Join(want("the log in /tmp", text, "secret\n"), want("the log at home", own, "secret\n"))
}

func (c *checker) stopUnit() error {
	run, err := c.start("trap 'echo asked; exit 5' TERM; sleep 1000 & wait", "")
	if err != nil {
		return err
	}
	if _, err := c.until(run, started); err != nil {
		return err
	}
	time.Sleep(time.Second) // until the shell has set its trap
	if _, err := command("systemctl", "stop", "berth-job-"+run); err != nil {
		return err
	}
	s, err := c.until(run, ended)
	return errors.Join(err, want("its exit code", fmt.Sprint(s.Exit.Or(-1)), "5"), want("its log", log(s), "asked"), want("shutting down", fmt.Sprint(s.Shutdown), "false"))
}

func (c *checker) limits() error {
	_, refused := ask[string](c, http.MethodGet, "/limits", nil)
	run, err := c.start("head -c 300m /dev/zero | tail -c 300m > /dev/null", "?memory=64")
	if refused != nil {
		if err == nil || !strings.Contains(err.Error(), "has no controller") {
			return fmt.Errorf("limits are refused (%w), and a run with one: %v", refused, err)
		}
		fmt.Println("        refused here:", err)
		return nil
	}
	if err != nil {
		return err
	}
	s, err := c.until(run, ended)
	if err == nil && (!s.OutOfMemory || s.Exit.Or(0) == 0) {
		err = fmt.Errorf("its record is %+v", s)
	}
	return err
}

// lastRun names a file with the run that is left for the shutdown.
const lastRun = state + "/last-run"

func (c *checker) forShutdown() error {
	run, err := c.start("trap 'echo asked; exit 6' TERM; sleep 1000 & wait", "")
	if err != nil {
		return err
	}
	if _, err := c.until(run, started); err != nil {
		return err
	}
	time.Sleep(time.Second) // until the shell has set its trap
	return os.WriteFile(lastRun, []byte(run), 0o600)
}

// rebooted looks at the run that the shutdown has ended.
func rebooted() error {
	run, err := os.ReadFile(lastRun)
	if err != nil {
		return err
	}
	s, err := newChecker().until(string(run), ended)
	boot, other := process.Proc().Boot()
	if s.Boot == boot {
		err = errors.Join(err, errors.New("the record is of this boot"))
	}
	if err := errors.Join(err, other, want("its exit code", fmt.Sprint(s.Exit.Or(-1)), "6"), want("its log", log(s), "asked"),
		want("shutting down", fmt.Sprint(s.Shutdown), "true")); err != nil {
		return err
	}
	fmt.Println("ok      a run that a shutdown ends has written down its exit code, and that it was a shutdown")
	return nil
}
