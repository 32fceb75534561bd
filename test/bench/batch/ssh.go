package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/remote"
	"github.com/berth-gpu/berth/internal/batch/transport"
	"github.com/berth-gpu/berth/internal/batch/worker"
	"github.com/berth-gpu/berth/internal/process/child"
)

// overSSH measures how many records per second pass through a worker behind ssh on this
// machine, beside one of the runner itself, in turns; and the memory of the runner for a
// long and a short input.
func overSSH() error {
	fmt.Printf("\nrecords of 1 KB through one Python worker that returns them as they are, batches of 1024, behind ssh and without it\n")
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		fmt.Println("there is no sshd: deploy/tools.sh sshd installs it")
		return nil
	}
	dir, err := os.MkdirTemp("", "berth-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ssh, stop, err := startSSHD(sshd, dir)
	if err != nil {
		return err
	}
	defer stop()
	const rounds = 5
	rates := map[bool][]float64{}
	for range rounds {
		for _, behind := range []bool{false, true} {
			t := task{Records: 300_000, Bytes: 1000, Batch: 1024, Workers: 1, Words: true}
			if behind {
				t.SSH = ssh
			}
			r, err := t.run()
			if err != nil {
				return err
			}
			rate := float64(r.Records) / r.Seconds
			rates[behind] = append(rates[behind], rate)
			fmt.Printf("behind ssh %-5t  %9.0f records/s  runner at most %4.0f MB\n", behind, rate, r.PeakMB)
		}
	}
	slices.Sort(rates[true])
	slices.Sort(rates[false])
	fmt.Printf("behind ssh, %.2f of the records a second (medians of %d)\n", rates[true][rounds/2]/rates[false][rounds/2], rounds)
	for _, records := range []int64{100_000, 2_000_000} {
		r, err := task{Records: records, Bytes: 1000, Batch: 1024, Workers: 2, Words: true, SSH: ssh}.run()
		if err != nil {
			return err
		}
		fmt.Printf("%9d records, 2 workers behind ssh  %9.0f records/s  runner at most %4.0f MB\n", records, float64(r.Records)/r.Seconds, r.PeakMB)
	}
	return nil
}

// startSSHD starts an sshd with keys and a configuration of its own, and returns the ssh
// that reaches it.
func startSSHD(sshd, dir string) (ssh []string, stop func(), err error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd wants it
			return nil, nil, err
		}
	}
	for _, key := range []string{"host", "key"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key)).CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	config := fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n", port, at("host"), at("key.pub"))
	if err := os.WriteFile(at("config"), []byte(config), 0o600); err != nil {
		return nil, nil, err
	}
	said := &child.Tail{Limit: 2000}
	cmd := exec.Command(sshd, "-D", "-e", "-f", at("config"))
	cmd.Stderr = said
	server, err := child.Start(cmd, child.How{})
	if err != nil {
		return nil, nil, err
	}
	for range 100 {
		var c net.Conn
		if c, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		server.Kill()
		return nil, nil, errors.Join(err, errors.New(fmt.Sprint(said.Lines(3))))
	}
	return []string{"ssh", "-F", "/dev/null", "-p", fmt.Sprint(port), "-i", at("key"), "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=" + at("known"),
		"-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"}, server.Kill, nil
}

// connect reaches this machine over ssh.
func connect(t task, dir, program string) (*remote.Session, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	there := filepath.Join(dir, "berth")
	script := fmt.Sprintf("#!/bin/sh\n%s=host BERTH_BENCH_PLACES=%d exec %s\n", envMode, t.Workers, self)
	if err := os.WriteFile(there, []byte(script), 0o700); err != nil {
		return nil, nil, err
	}
	l := child.NewLauncher()
	conn, err := transport.Dial(l, transport.SSH(transport.Quicker(context.Background(), t.SSH, "127.0.0.1"), "127.0.0.1", there))
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	s, err := remote.Connect(context.Background(), remote.Pipe{From: conn.From, To: conn.To, Cut: conn.Cut}, remote.Order{
		Host: "here", Berth: "bench", Log: os.Stderr, Say: func(string, ...any) {},
		Task: remote.Task{Command: []string{"python3", program}, Folder: dir, PerGPU: 1, Silence: 60},
	})
	if err != nil {
		err = conn.Why(err)
		l.Close()
		return nil, nil, err
	}
	return s, func() {
		s.Close(time.Second)
		l.Close()
	}, nil
}

// host is the other machine.
func host() error {
	_ = os.Unsetenv(envMode) // workers are not hosts
	n := 1
	_, _ = fmt.Sscan(os.Getenv("BERTH_BENCH_PLACES"), &n)
	return remote.Serve(context.Background(), os.Stdin, os.Stdout, remote.Site{Berth: "bench", Open: func(_ context.Context, t remote.Task, folder string, log io.Writer, _ func(string, ...any)) (remote.Workshop, error) {
		starter, err := worker.NewStarter(worker.Command{Args: t.Command, Dir: folder, Log: log})
		return shop{make(places, cmp.Or(n, 1)), starter}, err
	}})
}

// shop is a workshop without a daemon.
type shop struct {
	places
	starter *worker.Starter
}

func (s shop) Start(_ *batch.Grant, prefix string, env []string) (batch.Process, error) {
	return s.starter.Start(prefix, env)
}
func (s shop) Report(api.Batch) {}
func (s shop) Close() gpu.Opt[gpu.Joules] {
	s.starter.Close()
	return gpu.Opt[gpu.Joules]{}
}
