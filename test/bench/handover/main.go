// Command handover measures how soon a waiting client gets the device after its
// holder is killed with -9, and after the holder releases it.
//
// It measures from outside: from the kill or the release until the waiting
// client has its answer, which includes the write to the journal. It starts the
// daemon itself, on a simulated device, and real processes as holders.
//
//	make build && go run ./test/bench/handover
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	berth := flag.String("berth", "bin/berth", "the binary to measure")
	kills := flag.Int("kills", 300, "how many holders to kill")
	releases := flag.Int("releases", 2000, "how many leases to release")
	holder := flag.String("hold", "", "hold the device of the daemon on this socket until killed (used by the processes that it starts)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *holder != "" {
		err = hold(ctx, *holder)
	} else {
		err = run(ctx, *berth, *kills, *releases)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, berth string, kills, releases int) error {
	machine, err := daemon.Machine(berth)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n\n", machine)
	b, err := start(berth)
	if err != nil {
		return err
	}
	defer b.stop()
	fmt.Println("| from … to the answer of the one who waits | n | p50 | p99 | longest | target for p99 |\n|---|---:|---:|---:|---:|---:|")
	if err := b.report(ctx, "kill -9 of the holder", kills, 50*time.Millisecond, b.kill); err != nil {
		return err
	}
	return b.report(ctx, "release", releases, 5*time.Millisecond, b.release)
}

// bench is a daemon with two clients that want its device.
type bench struct {
	daemon  *daemon.Daemon
	one     *client.Client // holds, and releases
	another *client.Client // waits
}

func start(berth string) (*bench, error) {
	d, err := daemon.Start(daemon.Setup{Berth: berth, Devices: "sim:h200"})
	if err != nil {
		return nil, err
	}
	b := &bench{daemon: d}
	for _, c := range []**client.Client{&b.one, &b.another} {
		if *c, err = client.New(client.Options{Socket: d.Socket}); err != nil {
			d.Close()
			return nil, err
		}
	}
	return b, nil
}

func (b *bench) stop() {
	b.one.Close()
	b.another.Close()
	b.daemon.Close()
}

// report calls once n times and prints how long the calls took.
func (b *bench) report(ctx context.Context, name string, n int, target time.Duration, once func(context.Context) (time.Duration, error)) error {
	var times []time.Duration
	for range n {
		took, err := once(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		times = append(times, took)
	}
	at := func(q float64) time.Duration { return figure.Quantile(times, q).Round(time.Microsecond) }
	fmt.Printf("| %s | %d | %v | %v | %v | %v |\n", name, n, at(0.5), at(0.99), at(1), target)
	figure.Say(name+" → next, median", at(0.5).Seconds()*1e3, "ms", figure.Less)
	figure.Say(name+" → next, p99", at(0.99).Seconds()*1e3, "ms", figure.Less)
	return nil
}

// kill starts a process that holds the device, and kills it while another client
// waits.
func (b *bench) kill(ctx context.Context) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	process := exec.CommandContext(ctx, self, "-hold", b.daemon.Socket)
	process.Stderr = os.Stderr
	said, err := process.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := process.Start(); err != nil {
		return 0, err
	}
	defer process.Wait()
	if _, err := said.Read(make([]byte, 1)); err != nil { // the process prints a byte when it holds the device
		return 0, errors.Join(errors.New("the holder ended before it held the device"), err)
	}
	granted := b.wait(ctx)
	if err := b.isWaiting(ctx, granted); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := process.Process.Kill(); err != nil {
		return 0, err
	}
	end := <-granted
	if end.err != nil {
		return 0, end.err
	}
	_, err = b.another.Release(ctx, end.lease.ID, end.lease.Fence)
	return end.at.Sub(begin), err
}

// release acquires the device, and releases it while another client waits.
func (b *bench) release(ctx context.Context) (time.Duration, error) {
	held, err := b.one.Acquire(ctx, everything(gpu.Some(60.0)))
	if err != nil {
		return 0, err
	}
	granted := b.wait(ctx)
	if err := b.isWaiting(ctx, granted); err != nil {
		return 0, err
	}
	begin := time.Now()
	if _, err := b.one.Release(ctx, held.ID, held.Fence); err != nil {
		return 0, err
	}
	end := <-granted
	if end.err != nil {
		return 0, end.err
	}
	_, err = b.another.Release(ctx, end.lease.ID, end.lease.Fence)
	return end.at.Sub(begin), err
}

// everything asks for more than half of the device, so that only one client can
// have it. A lease with a time to live is on disk before the daemon answers.
func everything(ttl gpu.Opt[float64]) api.LeaseRequest {
	return api.LeaseRequest{Memory: 100 << 10, Slots: gpu.Some(0), TTL: ttl, Timeout: gpu.Some(60.0)}
}

// answer is the lease or error that the waiting client got, and when.
type answer struct {
	lease api.Lease
	at    time.Time
	err   error
}

func (b *bench) wait(ctx context.Context) chan answer {
	granted := make(chan answer, 1)
	go func() {
		l, err := b.another.Acquire(ctx, everything(gpu.Some(60.0)))
		granted <- answer{l, time.Now(), err}
	}()
	return granted
}

// isWaiting returns when a request is in the queue of the daemon.
func (b *bench) isWaiting(ctx context.Context, granted chan answer) error {
	for {
		if len(granted) > 0 {
			return errors.New("the second client got the device without waiting")
		}
		all, err := b.one.Leases(ctx)
		if err != nil || len(all.Waiting) > 0 {
			return err
		}
	}
}

// hold holds the device until the process is killed.
func hold(ctx context.Context, socket string) error {
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		return err
	}
	r := everything(gpu.Opt[float64]{})
	r.Binding = "process"
	if _, err := c.Acquire(ctx, r); err != nil {
		return err
	}
	fmt.Print("!")
	<-ctx.Done()
	return nil
}
