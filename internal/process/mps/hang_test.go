package mps

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
)

// A daemon that hangs when it starts holds up neither other users nor other
// devices, and neither what looks for daemons nor what stops them.
func TestHangingStartDelaysNobodyElse(t *testing.T) {
	install(t)
	p := newPool(t, 0)
	me, slow := os.Geteuid(), os.Geteuid()
	if me == 0 {
		slow = nobody
	}
	if _, err := p.Use(t.Context(), "GPU-idle", me, 8); err != nil {
		t.Fatal(err)
	}
	idle := p.idOf(t, "GPU-idle")
	hangs := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.patience = time.Hour
	answer := make(chan error, 1)
	go func() { _, err := p.Use(ctx, "GPU-hang", slow, 9); answer <- err }()
	if _, err := os.ReadFile(hangs); err != nil { // until it has started
		t.Fatal(err)
	}

	if _, err := p.Use(t.Context(), "GPU-a", me, 1); err != nil {
		t.Errorf("another one: %v", err)
	}
	p.Keep("GPU-a", me, 2)
	p.takeOver()
	p.Release(8)
	if p.stopUnused(); p.Processes.Alive(idle) {
		t.Error("an unused daemon was not stopped")
	}
	impatient, leave := context.WithCancel(t.Context())
	leave()
	if _, err := p.Use(impatient, "GPU-hang", slow, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("somebody who left got %v", err)
	}
	select {
	case err := <-answer:
		t.Fatalf("the one that hangs got %v", err)
	default:
	}
	cancel()
	if err := <-answer; err == nil {
		t.Error("the one that hangs got a daemon")
	}
}

// fifo makes the pipe that a daemon for GPU-hang writes to when it starts.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(strings.Split(os.Getenv("PATH"), ":")[0], "hang")
	if err := errors.Join(unix.Mkfifo(path, 0o666), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	return path
}

// The end of berth asks all unused daemons to quit at the same time: several
// that hang do not add up.
func TestShutdownStopsAllAtOnce(t *testing.T) {
	install(t)
	p := newPool(t, time.Hour)
	devices := []string{"GPU-a", "GPU-b", "GPU-c"}
	for _, uuid := range devices {
		if _, err := p.Use(t.Context(), uuid, os.Geteuid(), 1); err != nil {
			t.Fatal(err)
		}
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	p.ask = func(ctx context.Context, d *daemon, command string) error {
		asked <- struct{}{}
		<-answer
		return runClient(ctx, d, command)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	p.Release(1)
	cancel()
	for range devices { // one after another, the second would never be asked
		<-asked
	}
	close(answer)
	<-done
	if len(p.daemons) != 0 {
		t.Errorf("%d daemons are left", len(p.daemons))
	}
}

// A user database that hangs is given up, and is asked about a user only once at
// a time.
func TestHangingUserDatabase(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root looks other users up")
	}
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Processes: process.Proc()})
		asked, answer := 0, make(chan struct{})
		p.lookUp = func(uid int) (*syscall.Credential, error) {
			asked++
			<-answer
			return &syscall.Credential{Uid: uint32(uid)}, nil
		}
		for range 10 {
			before := time.Now()
			_, err := p.credential(t.Context(), 1000)
			if err == nil || !strings.Contains(err.Error(), "id 1000") || time.Since(before) != lookedUpWithin {
				t.Errorf("after %s it said %v", time.Since(before), err)
			}
		}
		close(answer)
		synctest.Wait()
		if as, err := p.credential(t.Context(), 1000); err != nil || as.Uid != 1000 || asked != 2 {
			t.Errorf("it is %v, %v, after %d questions", as, err, asked)
		}
		if _, err := p.credential(t.Context(), -1); err == nil {
			t.Error("nobody at all is a user")
		}
	})
}
