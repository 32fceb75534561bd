// Command startup measures how long a person waits for a short command: from
// the start of the process to the first byte of its output.
//
// It runs `berth status` against a running daemon, in turn with a Go program
// that prints a word, and with /bin/true, which prints nothing and is timed to
// its end.
//
//	make build && go run ./test/bench/startup
//
// On a machine without Go, -hello names a program that was built elsewhere.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
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
	other := flag.String("beside", "", "another build of berth to compare with (default: none)")
	hello := flag.String("hello", "", "a built Go program that prints a word (default: build one, which needs go)")
	rounds := flag.Int("n", 300, "how many rounds to measure; each program runs once per round")
	flag.Parse()
	if err := run(*berth, *other, *hello, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(1)
	}
}

// contender is one program and its measurements.
type contender struct {
	name  string
	words []string
	first []time.Duration // to the first byte of output, or to the end if there is none
	cpu   []time.Duration // processor time of the whole run
}

func run(berth, other, hello string, rounds int) error {
	machine, err := daemon.Machine(berth)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d rounds\n\n", machine, rounds)
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if hello == "" {
		if hello, err = buildHello(dir); err != nil {
			return err
		}
	}
	d, err := daemon.Start(daemon.Setup{Berth: berth, Devices: "sim:4"})
	if err != nil {
		return err
	}
	defer d.Close()
	contenders := []*contender{
		{name: "Go hello-world", words: []string{hello}},
		{name: "/bin/true, to its end", words: []string{"/bin/true"}},
		{name: "berth version", words: []string{berth, "version"}},
		{name: "berth status", words: []string{berth, "--socket", d.Socket, "status"}},
	}
	if other != "" {
		contenders = append(contenders, &contender{name: "the other's status", words: []string{other, "--socket", d.Socket, "status"}})
	}
	for round := range rounds {
		for _, c := range contenders {
			if err := c.turn(round >= rounds/20); err != nil { // the first rounds warm everything up
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	report(contenders)
	return nil
}

// turn runs a contender once. With keep, it keeps the measurement.
func (c *contender) turn(keep bool) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	began := time.Now()
	pid, err := syscall.ForkExec(c.words[0], c.words, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, write.Fd(), os.Stderr.Fd()},
	})
	_ = write.Close()
	if err != nil {
		return err
	}
	_, err = read.Read(make([]byte, 1))
	first := time.Since(began)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		return err
	}
	var status syscall.WaitStatus
	var used syscall.Rusage
	for {
		if _, err = syscall.Wait4(pid, &status, 0, &used); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil && status.ExitStatus() != 0 {
		err = fmt.Errorf("the program ended with status %d", status.ExitStatus())
	}
	if keep {
		c.first = append(c.first, first)
		c.cpu = append(c.cpu, time.Duration(used.Utime.Nano()+used.Stime.Nano()))
	}
	return err
}

// buildHello builds the smallest Go program that prints something.
func buildHello(dir string) (string, error) {
	source, program := filepath.Join(dir, "hello.go"), filepath.Join(dir, "hello")
	const text = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"hello\\n\") }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		return "", err
	}
	if said, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a hello-world: %w; or name a built one with -hello\n%s", err, said)
	}
	return program, nil
}

func report(contenders []*contender) {
	fmt.Printf("%-22s %12s %10s %10s %12s %8s\n", "to the first byte", "median", "p10", "p99", "CPU, median", "ratio")
	hello := figure.Quantile(contenders[0].first, 0.5)
	for _, c := range contenders {
		median := figure.Quantile(c.first, 0.5)
		if strings.HasPrefix(c.name, "berth ") {
			figure.Say(c.name+" ÷ hello-world", float64(median)/float64(hello), "ratio", figure.Less)
			figure.Say(c.name+", CPU", figure.Quantile(c.cpu, 0.5).Seconds()*1e3, "ms", figure.Less)
		}
		fmt.Printf("%-22s %12s %10s %10s %12s %8.1f\n", c.name, show(median), show(figure.Quantile(c.first, 0.1)), show(figure.Quantile(c.first, 0.99)),
			show(figure.Quantile(c.cpu, 0.5)), float64(median)/float64(hello))
	}
}

func show(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
