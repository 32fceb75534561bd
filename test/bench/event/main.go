// Command event measures how soon a program hears of an event.
//
// The time begins at the moment that the daemon gives the event, and ends with the call of
// the function in another process, which reads events with the Go client, or in Python with
// berth.on. The event is a lease that was granted, so the write to the journal is part of
// it. The floor is a byte on a bare socket, from the write to the return of the read in a
// process of the same language.
//
//	make build && go run ./test/bench/event
package main

import (
	"bufio"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

//go:embed event.py
var pythonProgram string

func main() {
	if len(os.Args) == 4 && os.Args[1] == "listen" {
		exitWith(listen(os.Args[2], os.Args[3]))
	}
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	python := flag.String("python", "python", "the folder of the Python package")
	n := flag.Int("n", 400, "how many events to measure with each listener")
	pause := flag.Duration("pause", 5*time.Millisecond, "how long nothing happens before an event")
	flag.Parse()
	exitWith(run(*berth, *python, *n, *pause))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "event:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// listen says when it heard of events, as event.py does.
func listen(way, address string) error {
	say := func(name string, at int64) { fmt.Println(name, at) }
	if way == "bare" {
		line, err := net.Dial("unix", address)
		if err != nil {
			return err
		}
		say("ready", 0)
		for one := make([]byte, 1); ; {
			if _, err := line.Read(one); err != nil {
				return nil // the benchmark has ended
			}
			say("byte", time.Now().UnixNano())
		}
	}
	c, err := client.New(client.Options{Socket: address})
	if err != nil {
		return err
	}
	say("ready", 0)
	for e, err := range c.EventsWhere(context.Background(), client.EventQuery{Follow: true, Filter: gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventGranted}}}) {
		at := time.Now().UnixNano()
		if err != nil {
			return err
		}
		say(e.Lease, at)
	}
	return nil
}

func run(berth, python string, n int, pause time.Duration) error {
	machine, err := daemon.Machine(berth)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d events each, %v apart\n\n", machine, n, pause)
	d, err := daemon.Start(daemon.Setup{Berth: berth, Devices: "sim:h200"})
	if err != nil {
		return err
	}
	defer d.Close()
	c, err := client.New(client.Options{Socket: d.Socket})
	if err != nil {
		return err
	}
	defer c.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	script := filepath.Join(d.Dir, "event.py")
	if err := os.WriteFile(script, []byte(pythonProgram), 0o600); err != nil {
		return err
	}
	if python, err = filepath.Abs(python); err != nil {
		return err
	}
	languages := []struct {
		name  string
		words []string
	}{
		{"Go", []string{self, "listen"}},
		{"Python", []string{"python3", script}},
	}
	fmt.Printf("%-34s %10s %10s %10s\n", "from the event to the callback", "median", "p99", "over bare")
	for _, l := range languages {
		bare, err := overSocket(filepath.Join(d.Dir, l.name), l.words, n, pause)
		if err != nil {
			return fmt.Errorf("a byte to %s: %w", l.name, err)
		}
		show("a byte on a bare socket, "+l.name, bare, bare)
		heard, err := throughDaemon(c, d.Socket, python, l.words, n, pause)
		if err != nil {
			return fmt.Errorf("an event to %s: %w", l.name, err)
		}
		show("an event, "+l.name, heard, bare)
		figure.Say("event → callback, "+l.name+", median", micros(heard, 0.5), "µs", figure.Less)
		figure.Say("event → callback, "+l.name+", p99", micros(heard, 0.99), "µs", figure.Less)
		figure.Say("event → callback ÷ a byte on a socket, "+l.name, micros(heard, 0.5)/micros(bare, 0.5), "ratio", figure.Less)
	}
	return nil
}

func micros(times []time.Duration, q float64) float64 {
	return float64(figure.Quantile(times, q).Nanoseconds()) / 1e3
}

func show(what string, times, bare []time.Duration) {
	fmt.Printf("%-34s %7.0f µs %7.0f µs %10.1f\n", what, micros(times, 0.5), micros(times, 0.99), micros(times, 0.5)/micros(bare, 0.5))
}

// listener is a process that says when it heard of something.
type listener struct {
	cmd  *exec.Cmd
	in   io.Closer // ends it
	says *bufio.Reader
}

// begin starts a listener and waits until it is ready.
func begin(words []string, way, address, python string) (*listener, error) {
	words = append(words[:len(words):len(words)], way, address)
	l := &listener{cmd: exec.Command(words[0], words[1:]...)}
	l.cmd.Env = append(os.Environ(), "PYTHONPATH="+python, "PYTHONDONTWRITEBYTECODE=1")
	l.cmd.Stderr = os.Stderr
	in, err := l.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	l.in, l.says = in, bufio.NewReader(out)
	return l, nil
}

func (l *listener) end() {
	_ = l.in.Close()
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

// heard returns what the listener heard of next, and when.
func (l *listener) heard() (name string, at time.Time, err error) {
	line, err := l.says.ReadString('\n')
	if err != nil {
		return "", at, fmt.Errorf("the listener ended: %w", err)
	}
	name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
	nanoseconds, err := strconv.ParseInt(digits, 10, 64)
	return name, time.Unix(0, nanoseconds), err
}

// warm is the share of events at the beginning that do not count.
func warm(n int) int { return n / 10 }

// overSocket measures a byte on a bare socket.
func overSocket(address string, words []string, n int, pause time.Duration) ([]time.Duration, error) {
	door, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	defer door.Close()
	l, err := begin(words, "bare", address, "")
	if err != nil {
		return nil, err
	}
	defer l.end()
	line, err := door.Accept()
	if err != nil {
		return nil, err
	}
	defer line.Close()
	if _, _, err := l.heard(); err != nil { // ready
		return nil, err
	}
	var took []time.Duration
	for i := range n + warm(n) {
		time.Sleep(pause)
		began := time.Now()
		if _, err := line.Write([]byte{1}); err != nil {
			return nil, err
		}
		_, at, err := l.heard()
		if err != nil {
			return nil, err
		}
		if i >= warm(n) {
			took = append(took, at.Sub(began))
		}
	}
	return took, nil
}

// throughDaemon measures events of leases that are granted.
func throughDaemon(c *client.Client, socket, python string, words []string, n int, pause time.Duration) ([]time.Duration, error) {
	l, err := begin(words, "events", socket, python)
	if err != nil {
		return nil, err
	}
	defer l.end()
	if _, _, err := l.heard(); err != nil { // ready
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var took []time.Duration
	for i := range n + warm(n) {
		time.Sleep(pause)
		id := fmt.Sprintf("event-%d-%d", l.cmd.Process.Pid, i)
		lease, err := c.Acquire(ctx, api.LeaseRequest{ID: id, Memory: 1, Slots: gpu.Some(0), Binding: "process", Timeout: gpu.Some(0.0)})
		if err != nil {
			return nil, err
		}
		for {
			name, at, err := l.heard()
			if err != nil {
				return nil, err
			}
			if name != id { // of before the listener was there
				continue
			}
			if i >= warm(n) {
				took = append(took, at.Sub(lease.Granted))
			}
			break
		}
		if _, err := c.Release(ctx, id, lease.Fence); err != nil {
			return nil, err
		}
	}
	return took, nil
}
