// Command exec measures how long it takes to start a program under a lease.
//
// It runs /bin/true with berth exec, with a plain fork and exec, with GNU
// parallel and with task-spooler, in turn, so that other load on the machine
// hits all of them alike.
//
//	go run ./test/bench/exec -berth bin/berth
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	rounds := flag.Int("n", 1000, "how many rounds to measure; each program runs once per round")
	flag.Parse()
	if err := run(*berth, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "exec:", err)
		os.Exit(1)
	}
}

// contender is one way to run /bin/true.
type contender struct {
	name  string
	words []string
	env   []string
	jobs  int // jobs of one call, which share its time
	every int // rounds from one turn to the next
	times []time.Duration
}

func run(berth string, rounds int) error {
	berth, err := filepath.Abs(berth)
	if err != nil {
		return err
	}
	machine, err := daemon.Machine(berth)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d rounds\n\n", machine, rounds)
	d, err := daemon.Start(daemon.Setup{Berth: berth, Devices: "sim:4"})
	if err != nil {
		return err
	}
	defer d.Close()
	env := append(os.Environ(), "BERTH_SOCKET="+d.Socket, "TS_SOCKET="+filepath.Join(d.Dir, "tsp"))
	defer endSpooler(env)
	contenders := contendersIn(env, berth)
	for round := range rounds {
		for _, c := range contenders {
			if round%c.every != 0 {
				continue
			}
			took, err := c.turn()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= rounds/20 { // the first rounds warm everything up
				c.times = append(c.times, took)
			}
		}
	}
	report(contenders)
	return tooMuch(contenders)
}

// endSpooler ends the server of task-spooler, which lives in the folder of its socket.
func endSpooler(env []string) {
	tsp := exec.Command("tsp", "-K")
	tsp.Env = env
	_ = tsp.Run() // fails if tsp is not installed or never ran
}

// contendersIn returns the contenders that are installed, and prints which are
// not.
func contendersIn(env []string, berth string) []*contender {
	exec := []string{berth, "exec", "--memory", "1GiB", "--", "/bin/true"}
	list := []*contender{
		{name: "fork and exec", words: []string{"/bin/true"}, env: env, jobs: 1, every: 1},
		{name: "berth exec", words: exec, env: env, jobs: 1, every: 1},
	}
	const manyJobs = 50 // parallel takes long to start, so many jobs share its start
	for _, other := range []contender{
		{name: "task-spooler", words: []string{"tsp", "-nf", "/bin/true"}, jobs: 1, every: 1},
		{name: "GNU parallel, per job", words: append([]string{"parallel", "--will-cite", "-j1", "/bin/true", ":::"}, strings.Fields(strings.Repeat("x ", manyJobs))...), jobs: manyJobs, every: 25},
	} {
		path, err := lookPath(other.words[0])
		if err != nil {
			fmt.Printf("%-27s not installed (apt-get install parallel task-spooler)\n", other.name)
			continue
		}
		other.words[0], other.env = path, env
		list = append(list, &other)
	}
	return list
}

func lookPath(name string) (string, error) { return exec.LookPath(name) }

// turn runs a contender once and returns how long one job took. It uses system
// calls directly, so that it adds little time of its own.
func (c *contender) turn() (time.Duration, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), os.Stderr.Fd()}
	began := time.Now()
	pid, err := syscall.ForkExec(c.words[0], c.words, &syscall.ProcAttr{Env: c.env, Files: files})
	if err != nil {
		return 0, err
	}
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	took := time.Since(began)
	if err == nil && status.ExitStatus() != 0 {
		err = fmt.Errorf("the program ended with status %d", status.ExitStatus())
	}
	return took / time.Duration(c.jobs), err
}

func report(contenders []*contender) {
	fmt.Printf("%-27s %10s %10s %14s %8s\n", "", "median", "p99", "over plain", "ratio")
	plain := figure.Quantile(contenders[0].times, 0.5)
	for _, c := range contenders {
		median := figure.Quantile(c.times, 0.5)
		if c != contenders[0] {
			figure.Say(c.name+" over fork and exec", (median-plain).Seconds()*1e3, "ms", figure.Less)
		}
		fmt.Printf("%-27s %10s %10s %14s %8.1f\n", c.name, show(median), show(figure.Quantile(c.times, 0.99)), "+"+show(median-plain), float64(median)/float64(plain))
	}
}

// allowed is how much longer berth exec may take than a plain start.
const allowed = 5 * time.Millisecond

// tooMuch returns an error if berth exec, the second contender, takes longer than
// allowed.
func tooMuch(contenders []*contender) error {
	if over := figure.Quantile(contenders[1].times, 0.5) - figure.Quantile(contenders[0].times, 0.5); over > allowed {
		return fmt.Errorf("berth exec takes %s longer than a plain start; at most %s is allowed", show(over), show(allowed))
	}
	return nil
}

func show(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
