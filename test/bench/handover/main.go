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
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
	disk, err := os.Create(filepath.Join(b.daemon.Dir, "floor"))
	if err != nil {
		return err
	}
	defer disk.Close()
	// Each beside its floor, in the same minutes.
	for _, row := range []struct {
		name   string
		n      int
		target time.Duration
		once   func(context.Context) (time.Duration, error)
	}{
		{"floor: kill -9 until the kernel tells of it, and a write to the disk", kills, 0, func(ctx context.Context) (time.Duration, error) { return b.bareKill(ctx, disk) }},
		{"kill -9 of the holder", kills, 3 * time.Millisecond, b.kill},
		{"floor: a write to the disk", releases, 0, func(context.Context) (time.Duration, error) { return write(disk) }},
		{"release", releases, 800 * time.Microsecond, b.release},
	} {
		if err := b.report(ctx, row.name, row.n, row.target, row.once); err != nil {
			return err
		}
	}
	return nil
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
	wanted := ""
	if target != 0 {
		wanted = target.String()
	}
	fmt.Printf("| %s | %d | %v | %v | %v | %s |\n", name, n, at(0.5), at(0.99), at(1), wanted)
	if target == 0 {
		return nil
	}
	figure.Say(name+" → next, median", at(0.5).Seconds()*1e3, "ms", figure.Less)
	figure.Say(name+" → next, p99", at(0.99).Seconds()*1e3, "ms", figure.Less)
	return nil
}

// write appends as much as two records of a journal take to a file, and waits for the disk.
func write(disk *os.File) (time.Duration, error) {
	began := time.Now()
	_, err := disk.Write(make([]byte, 512))
	if err == nil {
		err = syscall.Fdatasync(int(disk.Fd()))
	}
	return time.Since(began), err
}

// bareKill kills such a process without anybody who waits, and returns how long it takes
// until the kernel tells that it has ended, and one write to the disk.
func (b *bench) bareKill(ctx context.Context, disk *os.File) (time.Duration, error) {
	process, err := b.holder(ctx)
	if err != nil {
		return 0, err
	}
	defer process.Wait()
	pidfd, err := unix.PidfdOpen(process.Process.Pid, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(pidfd)
	began := time.Now()
	if err := process.Process.Kill(); err != nil {
		return 0, err
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if n > 0 {
			break
		}
		if err != nil && err != unix.EINTR {
			return 0, err
		}
	}
	_, err = write(disk)
	return time.Since(began), err
}

// holder starts a process that holds the device.
func (b *bench) holder(ctx context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, self, "-hold", b.daemon.Socket)
	process.Stderr = os.Stderr
	said, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	if _, err := said.Read(make([]byte, 1)); err != nil { // the process prints a byte when it holds the device
		return nil, errors.Join(errors.New("the holder ended before it held the device"), err, process.Wait())
	}
	return process, nil
}

// kill starts a process that holds the device, and kills it while another client
// waits.
func (b *bench) kill(ctx context.Context) (time.Duration, error) {
	process, err := b.holder(ctx)
	if err != nil {
		return 0, err
	}
	defer process.Wait()
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
