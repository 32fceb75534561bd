// Command jobs measures what it costs that berth runs a program as a job.
//
// It measures how long it takes from the submit to the first instruction of the command,
// and how many empty jobs run in a minute, beside a plain fork and exec, Slurm,
// task-spooler and GNU parallel, in turn. None of those has a job on the disk before it
// answers. What it costs that nothing is lost is the difference to a daemon whose state is
// in memory. Then another user submits an array of 10,000 tasks, and it measures what that
// costs everybody else.
//
// It starts Slurm by itself if that is installed, and ends it.
//
//	go run ./test/bench/jobs -berth bin/berth
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "stamp" {
		exitWith(stamp(os.Args[2]))
	}
	if len(os.Args) == 4 && os.Args[1] == "post" {
		exitWith(post(os.Args[2], os.Args[3]))
	}
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	rounds := flag.Int("n", 100, "how many rounds to measure; each program runs once per round")
	empty := flag.Int("jobs", 200, "how many empty jobs to run")
	turns := flag.Int("turns", 9, "how often leases are measured without 10,000 tasks and beside them")
	flag.Parse()
	exitWith(run(*berth, *rounds, *empty, *turns))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// stamp writes down when it began. It is the command of all that is measured.
func stamp(pipe string) error {
	began := time.Now().UnixNano()
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d\n", began)
	return errors.Join(err, f.Close())
}

// daemon is a daemon with four simulated devices.
type daemon struct {
	socket  string
	process *exec.Cmd
	http    *http.Client
}

// startDaemon starts a daemon that keeps its state in a folder.
func startDaemon(berth, folder string) (*daemon, error) {
	d := talkTo(filepath.Join(folder, "s"))
	config := filepath.Join(folder, "berth.yaml")
	if err := os.WriteFile(config, []byte("gpu: {max_pipelines: 100}\n"), 0o600); err != nil {
		return nil, err
	}
	d.process = exec.Command(berth, "serve", "--config", config, "--devices", "sim:4", "--state-dir", filepath.Join(folder, "state"), "--socket", d.socket, "--listen", "")
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("unix", d.socket); err == nil {
			return d, conn.Close()
		}
	}
	d.stop()
	return nil, errors.New("the daemon does not answer within 10 s")
}

// talkTo returns the daemon at a socket.
func talkTo(socket string) *daemon {
	return &daemon{socket: socket, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}}
}

func (d *daemon) stop() {
	_ = d.process.Process.Signal(os.Interrupt)
	_ = d.process.Wait()
}

// answered is what post writes: the answer, and how long it took.
type answered struct {
	Took   time.Duration
	Answer json.RawMessage
}

// post sends what it reads to a path of the daemon, as the user of this process, and
// writes what it was answered.
func post(socket, path string) error {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	d := talkTo(socket)
	if err := d.call("GET", "/healthz", nil, nil); err != nil { // it has a connection then
		return err
	}
	var a answered
	began := time.Now()
	if err := d.call("POST", path, json.RawMessage(body), &a.Answer); err != nil {
		return err
	}
	a.Took = time.Since(began)
	return json.NewEncoder(os.Stdout).Encode(a)
}

// another is the user whose tasks others have to live with.
const another = 65534

// postAs sends something to the daemon as another user, if this is root.
func (b *bench) postAs(path string, in, out any) (time.Duration, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	cmd := b.command(b.self, "post", b.socket, path)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(body), os.Stderr
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: another, Gid: another}}
	}
	text, err := cmd.Output()
	var a answered
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil {
		err = json.Unmarshal(a.Answer, out)
	}
	return a.Took, err
}

// bench is a daemon, another one whose state is in memory, and what is measured with them.
type bench struct {
	*daemon
	memory *daemon // nil if there is no place for it
	slurm  *slurm  // nil if there is none

	berth, self, dir, pipe string

	turns   int      // how often leases are measured without many tasks and beside them
	folders []string // to remove
	stamps  *bufio.Reader
	env     []string
}

// memoryFolder is where files are in memory.
const memoryFolder = "/dev/shm"

func start(berth string) (b *bench, err error) {
	b = &bench{berth: berth}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.dir, err = b.folder(""); err != nil {
		return b, err
	}
	// Others cannot reach what go run has built.
	b.self = filepath.Join(b.dir, "bench")
	if text, err := os.ReadFile("/proc/self/exe"); err != nil {
		return b, err
	} else if err := os.WriteFile(b.self, text, 0o755); err != nil {
		return b, err
	}
	b.pipe = filepath.Join(b.dir, "pipe")
	if err := syscall.Mkfifo(b.pipe, 0o600); err != nil {
		return b, err
	}
	f, err := os.OpenFile(b.pipe, os.O_RDWR, 0) // so that no writer ends it
	if err != nil {
		return b, err
	}
	b.stamps = bufio.NewReader(f)
	if b.daemon, err = startDaemon(berth, b.dir); err != nil {
		return b, err
	}
	b.env = append(os.Environ(), "BERTH_SOCKET="+b.socket, "TS_SOCKET="+filepath.Join(b.dir, "tsp"))
	if inMemory, err := b.folder(memoryFolder); err != nil {
		fmt.Printf("%-27s %v\n", "berth, state in memory", err)
	} else if b.memory, err = startDaemon(berth, inMemory); err != nil {
		return b, err
	}
	if b.slurm, err = startSlurm(); err != nil {
		fmt.Printf("%-27s %v\n", "Slurm", err)
	}
	return b, nil
}

// folder makes a folder that others may go through.
func (b *bench) folder(within string) (string, error) {
	folder, err := os.MkdirTemp(within, "berth-bench-")
	if err == nil {
		b.folders = append(b.folders, folder)
		err = os.Chmod(folder, 0o755)
	}
	return folder, err
}

func (b *bench) stop() {
	if b.slurm != nil {
		b.slurm.stop()
	}
	if b.env != nil {
		_ = b.command("tsp", "-K").Run() // fails if tsp is not installed or never ran
	}
	for _, d := range []*daemon{b.daemon, b.memory} {
		if d != nil {
			d.stop()
		}
	}
	for _, folder := range b.folders {
		_ = os.RemoveAll(folder)
	}
}

func (b *bench) command(words ...string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Dir = b.env, b.dir
	return cmd
}

// call asks the daemon.
func (d *daemon) call(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, "http://berth"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := d.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	return err
}

// shown is what the measurements need to know of a job.
type shown struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// submit submits a job over the socket.
func (d *daemon) submit(array string, words ...string) (string, error) {
	var j shown
	err := d.call("POST", "/api/jobs", map[string]any{
		"command": words, "array": array, "directory": "/", "output": "/dev/null", "lease": map[string]any{"memory_mb": 10, "slots": 0},
	}, &j)
	return j.ID, err
}

// await returns when a job has ended.
func (d *daemon) await(id string) error {
	for {
		var j shown
		if err := d.call("GET", "/api/jobs/"+id+"?wait_seconds=60", nil, &j); err != nil {
			return err
		}
		switch j.State {
		case "done":
			return nil
		case "failed", "cancelled", "lost", "timed_out":
			return fmt.Errorf("%s is %s", id, j.State)
		}
	}
}

// contender is one way to run a program.
type contender struct {
	name string
	run  func() error      // has the stamp run once, at once or later
	many func(n int) error // runs /bin/true so many times, two at a time
	slow int               // it runs in one round of so many, and as many empty jobs fewer; 0: in all
	took []time.Duration
	rate float64 // a minute
}

// over returns berth as a contender, with a daemon of its own.
func (b *bench) over(name string, d *daemon) *contender {
	return &contender{name: name, run: func() error { _, err := d.submit("", b.self, "stamp", b.pipe); return err }, many: func(n int) error {
		id, err := d.submit(fmt.Sprintf("1-%d", n), "/bin/true")
		if err != nil {
			return err
		}
		return d.await(id)
	}}
}

func (b *bench) contenders() []*contender {
	bare := func(n int) error {
		for range n {
			if err := exec.Command("/bin/true").Run(); err != nil {
				return err
			}
		}
		return nil
	}
	list := []*contender{
		{name: "fork and exec", run: func() error { return b.command(b.self, "stamp", b.pipe).Run() }, many: bare},
		b.over("berth, over the socket", b.daemon),
		{name: "berth submit", run: func() error {
			return b.command(b.berth, "submit", "--memory", "10MiB", "--output", "/dev/null", "--", b.self, "stamp", b.pipe).Run()
		}},
		{name: "task-spooler", run: func() error { return b.command("tsp", "-n", b.self, "stamp", b.pipe).Run() }, many: func(n int) error {
			for range n {
				if err := b.command("tsp", "-n", "/bin/true").Run(); err != nil {
					return err
				}
			}
			return b.command("tsp", "-w").Run()
		}},
		{name: "GNU parallel", run: func() error {
			return b.command("parallel", "--will-cite", b.self, "stamp", b.pipe, "#", ":::", "x").Run()
		}, many: func(n int) error {
			return b.command(append([]string{"parallel", "--will-cite", "-j2", "/bin/true", ":::"}, strings.Fields(strings.Repeat("x ", n))...)...).Run()
		}},
	}
	if b.memory != nil {
		list = slices.Insert(list, 2, b.over("berth, state in memory", b.memory))
	}
	if s := b.slurm; s != nil {
		list = append(list,
			&contender{name: "srun", run: func() error { return s.command("srun", "--quiet", b.self, "stamp", b.pipe).Run() }, many: s.srun, slow: 2},
			&contender{name: "sbatch", slow: 10, run: func() error {
				return s.command("sbatch", "--quiet", "--output=/dev/null", "--wrap=exec "+b.self+" stamp "+b.pipe).Run()
			}, many: s.sbatch})
	}
	return slices.DeleteFunc(list, func(c *contender) bool {
		program := map[string]string{"task-spooler": "tsp", "GNU parallel": "parallel"}[c.name]
		if program == "" {
			return false
		}
		if _, err := exec.LookPath(program); err != nil {
			fmt.Printf("%-27s not installed (apt-get install parallel task-spooler)\n", c.name)
			return true
		}
		return false
	})
}

func run(berth string, rounds, empty, turns int) error {
	berth, err := filepath.Abs(berth)
	if err != nil {
		return err
	}
	version, err := exec.Command(berth, "version").Output()
	if err != nil {
		return fmt.Errorf("run %s version: %w; run make build first", berth, err)
	}
	load, _ := os.ReadFile("/proc/loadavg") // for the record only
	fmt.Printf("%s%s/%s, %d CPUs, %s, %d rounds, load before %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly), rounds, strings.Join(strings.Fields(string(load))[:1], ""))
	b, err := start(berth)
	if err != nil {
		return err
	}
	defer b.stop()
	b.turns = turns
	all := b.contenders()
	for round := range rounds {
		for _, c := range all {
			if round%max(c.slow, 1) != 0 {
				continue
			}
			took, err := b.firstInstruction(c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= rounds/20 { // the first rounds warm everything up
				c.took = append(c.took, took)
			}
		}
	}
	for _, c := range all {
		if c.many == nil {
			continue
		}
		n := max(empty/max(c.slow, 1), 1)
		began := time.Now()
		if err := c.many(n); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.rate = float64(n) / time.Since(began).Minutes()
	}
	plain := all[0]
	fmt.Printf("\nsubmit to the first instruction of the command\n%-27s %10s %10s %10s %8s\n", "", "least", "median", "p99", "ratio")
	for _, c := range all {
		if strings.HasPrefix(c.name, "berth") {
			figure.Say("job, "+c.name+" → first instruction, median", figure.Quantile(c.took, 0.5).Seconds()*1e3, "ms", figure.Less)
		}
		fmt.Printf("%-27s %10s %10s %10s %8.1f\n", c.name, show(figure.Quantile(c.took, 0)), show(figure.Quantile(c.took, 0.5)), show(figure.Quantile(c.took, 0.99)), ratio(figure.Quantile(c.took, 0.5), figure.Quantile(plain.took, 0.5)))
	}
	fmt.Printf("\nempty jobs a minute, two at a time where that can be said\n")
	for _, c := range all {
		if c.many != nil {
			fmt.Printf("%-27s %10.0f %30.2f\n", c.name, c.rate, c.rate/plain.rate)
			if strings.HasPrefix(c.name, "berth") {
				figure.Say("empty jobs a minute, "+c.name, c.rate, "jobs/min", figure.More)
			}
		}
	}
	return b.manyTasks()
}

// firstInstruction returns how long it takes from the call to the first instruction.
func (b *bench) firstInstruction(c *contender) (time.Duration, error) {
	began := time.Now()
	if err := c.run(); err != nil {
		return 0, err
	}
	line, err := b.stamps.ReadString('\n')
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Unix(0, at).Sub(began), err
}

// The targets.
const (
	mostSubmit = 2 * time.Second
	mostList   = 100 * time.Millisecond
	mostBeside = 1.2
)

// manyTasks measures 10,000 tasks of another user, of which one runs at a time, and what
// leases cost beside them.
func (b *bench) manyTasks() error {
	var submitted, listed, one, cancelled, without, with []time.Duration
	var ratios []float64
	for range b.turns {
		alone, err := b.leases()
		if err != nil {
			return err
		}
		var j shown
		took, err := b.postAs("/api/jobs", map[string]any{
			"command": []string{"/bin/sleep", "1000"}, "array": "1-10000", "directory": "/", "output": "/dev/null", "lease": map[string]any{"memory_mb": 100000, "gpu": "0"},
		}, &j)
		if err != nil {
			return err
		}
		submitted = append(submitted, took)
		began := time.Now()
		if err := b.command(b.berth, "jobs").Run(); err != nil {
			return err
		}
		listed = append(listed, time.Since(began))
		began = time.Now()
		if err := b.call("GET", "/api/jobs/"+j.ID, nil, nil); err != nil {
			return err
		}
		one = append(one, time.Since(began))
		beside, err := b.leases()
		if err != nil {
			return err
		}
		took, err = b.postAs("/api/jobs/"+j.ID+"/cancel", struct{}{}, &j)
		if err != nil {
			return err
		}
		cancelled = append(cancelled, took)
		ratios = append(ratios, ratio(figure.Quantile(beside, 0.99), figure.Quantile(alone, 0.99)))
		without, with = append(without, alone...), append(with, beside...)
	}
	slices.Sort(ratios)
	whose := "another user"
	if os.Geteuid() != 0 {
		whose = "the same user; run it as root for another"
	}
	fmt.Printf("\n10,000 tasks of %s in one array, in %d turns without and with them\n", whose, b.turns)
	for _, each := range []struct {
		name string
		took []time.Duration
		most time.Duration // 0: none is wanted
	}{
		{"submitted", submitted, mostSubmit},
		{"berth jobs", listed, mostList},
		{"GET /api/jobs/{id}, with all tasks", one, mostList},
		{"cancelled", cancelled, 0},
	} {
		wanted := ""
		if each.most > 0 {
			wanted = fmt.Sprintf(" (wanted: below %v)", each.most)
		}
		figure.Say("10,000 tasks: "+each.name, figure.Quantile(each.took, 0.5).Seconds()*1e3, "ms", figure.Less)
		fmt.Printf("%-44s %10s median %s%s\n", each.name+", least", show(figure.Quantile(each.took, 0)), show(figure.Quantile(each.took, 0.5)), wanted)
	}
	for _, each := range []struct {
		name string
		took []time.Duration
	}{{"acquire and release without them", without}, {"beside them", with}} {
		fmt.Printf("%-44s %10s p99 %s\n", each.name+", median", show(figure.Quantile(each.took, 0.5)), show(figure.Quantile(each.took, 0.99)))
	}
	figure.Say("10,000 tasks: p99 of a lease beside them ÷ without", ratios[len(ratios)/2], "ratio", figure.Less)
	fmt.Printf("%-44s %10.2f (wanted: at most %.1f)\n", "ratio of the p99 in a turn, median", ratios[len(ratios)/2], mostBeside)
	// Others may keep the machine busy. What berth takes is the least of all turns.
	if figure.Quantile(submitted, 0) > mostSubmit || figure.Quantile(listed, 0) > mostList || figure.Quantile(one, 0) > mostList {
		return errors.New("10,000 tasks take longer than wanted")
	}
	return nil
}

// leases measures how long it takes to acquire a lease and to release it.
func (b *bench) leases() (all []time.Duration, err error) {
	for n := range 500 {
		id := fmt.Sprintf("beside-%d", n)
		began := time.Now()
		if err := b.call("POST", "/api/leases", map[string]any{"id": id, "memory_mb": 10, "slots": 0, "gpu": "1"}, nil); err != nil {
			return nil, err
		}
		if err := b.call("DELETE", "/api/leases/"+id, nil, nil); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	return all, nil
}

func show(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
