package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/desk/doctor"
)

var (
	auditRounds = flag.Int("audit.rounds", 3, "how often the daemon is killed while administrators change the configuration")
	auditSeed   = flag.Uint64("audit.seed", 1, "where chance begins")
)

// A daemon that is killed with -9 under load, again and again, loses no entry of
// the audit log whose act was acknowledged, and its log is sound each time.
func TestAuditOutlivesKills(t *testing.T) {
	dir := shortDir(t)
	k := &killing{t: t, dir: dir, notify: notifyIn(t, dir), random: rand.New(rand.NewPCG(*auditSeed, 12))}
	for range *auditRounds {
		k.round()
	}
	t.Logf("%d kills, %d acts acknowledged, %d entries", *auditRounds, len(k.acknowledged), k.entries)
}

// killing is a daemon that is killed again and again.
type killing struct {
	t      *testing.T
	dir    string
	notify *net.UnixConn
	random *rand.Rand

	next atomic.Int64 // value of the next change; each is made once

	mu           sync.Mutex
	acknowledged []int64 // values of changes that the daemon said it made
	entries      int
}

const administrators, tenants = 4, 4

// round starts the daemon, kills it after some acts, and looks at its log.
func (k *killing) round() {
	daemon := exec.Command("berth", "serve", "--devices", "sim:2", "--listen", "", "--state-dir", filepath.Join(k.dir, "state"), "--socket", filepath.Join(k.dir, "s"))
	daemon.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(k.dir, "n"), "BERTH_AUDIT_MAX_MB=1", "BERTH_AUDIT_FILES=1000", "HOME="+k.dir, "GORACE=atexit_sleep_ms=0")
	if err := daemon.Start(); err != nil {
		k.t.Fatal(err)
	}
	if _, err := k.notify.Read(make([]byte, 4096)); err != nil {
		k.t.Fatal(err)
	}
	enough := make(chan struct{})
	alive, dead := context.WithCancel(k.t.Context()) // a client asks for a minute otherwise
	left := int64(1 + k.random.IntN(40))
	var acts atomic.Int64
	var everybody sync.WaitGroup
	for range administrators {
		everybody.Go(func() {
			k.administer(alive, func() {
				if acts.Add(1) == left {
					close(enough)
				}
			})
		})
	}
	for n := range tenants {
		everybody.Go(func() { k.lease(alive, fmt.Sprint("tenant-", n)) })
	}
	<-enough
	if err := daemon.Process.Kill(); err != nil {
		k.t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	dead()
	everybody.Wait()
	k.check()
}

func (k *killing) client() *client.Client {
	c, err := client.New(client.Options{Socket: filepath.Join(k.dir, "s")})
	if err != nil {
		panic(err)
	}
	return c
}

// administer changes the configuration until the daemon is gone.
func (k *killing) administer(ctx context.Context, acknowledged func()) {
	c := k.client()
	defer c.Close()
	for {
		value := 201 + k.next.Add(1)%99000
		if _, err := c.SetConfig(ctx, fmt.Appendf(nil, `{"history_size": %d}`, value)); err != nil {
			return
		}
		k.mu.Lock()
		k.acknowledged = append(k.acknowledged, value)
		k.mu.Unlock()
		acknowledged()
	}
}

// lease takes and releases leases until the daemon is gone.
func (k *killing) lease(ctx context.Context, id string) {
	c := k.client()
	defer c.Close()
	for i := 0; ; i++ {
		id := fmt.Sprint(id, "-", i, "-", k.next.Load())
		if _, err := c.Acquire(ctx, api.LeaseRequest{ID: id, Memory: 64, Slots: gpu.Some(0), TTL: gpu.Some(60.0)}); err != nil {
			return
		}
		if _, err := c.Release(ctx, id, 0); err != nil {
			return
		}
	}
}

// check holds the log against what was acknowledged.
func (k *killing) check() {
	state := filepath.Join(k.dir, "state")
	verdict, err := doctor.VerifyAudit(state)
	if err != nil || !verdict.Sound {
		k.t.Fatalf("after %d acts: %+v, %v", len(k.acknowledged), verdict, err)
	}
	k.entries = verdict.Entries
	written := map[string]bool{}
	for _, name := range verdict.Files {
		text, err := os.ReadFile(filepath.Join(state, "audit", name))
		if err != nil {
			k.t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var e api.AuditEntry
			if err := json.Unmarshal(line, &e); err == nil {
				written[e.After["gpu.history_size"]] = true
			}
		}
	}
	for _, value := range k.acknowledged {
		if !written[fmt.Sprint(value)] {
			k.t.Fatalf("the change to %d was acknowledged, and is not in the log", value)
		}
	}
}
