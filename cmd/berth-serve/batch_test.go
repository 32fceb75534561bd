package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

var (
	batchRuns = flag.Int("batch.runs", 3, "batches in which the daemon is killed")
	batchSeed = flag.Uint64("batch.seed", 1, "seed of the first of them; each further one adds 1")
)

// Batches whose daemon is killed with -9, by their workers: while they load,
// which is between the grant of a lease and its handing over, and in the middle
// of a batch. The daemon is started again each time. Workers die too, and so
// does the runner, which is started again. At the end every record has exactly
// one outcome, whatever the output looks like, and nobody holds a lease.
func TestBatchesOutliveTheDaemon(t *testing.T) {
	for i := range *batchRuns {
		seed := *batchSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			newTrial(t, seed).run()
		})
	}
}

// trial is one such batch.
type trial struct {
	t       *testing.T
	dir     string
	env     []string
	random  *rand.Rand
	records int
	output  string
	args    []string
	notify  *net.UnixConn
	orders  net.Listener // of workers, to kill the daemon

	mu     sync.Mutex
	daemon *exec.Cmd
	over   bool
	kept   sync.WaitGroup
}

func newTrial(t *testing.T, seed uint64) *trial {
	dir := shortDir(t)
	random := rand.New(rand.NewPCG(seed, 14))
	x := &trial{t: t, dir: dir, notify: notifyIn(t, dir), random: random, records: 30 + random.IntN(100)}
	if err := os.Mkdir(x.path("marks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if x.orders, err = net.Listen("unix", x.path("k")); err != nil {
		t.Fatal(err)
	}
	x.env = append(os.Environ(), "BERTH_SOCKET="+x.path("s"), "BERTH_TEST_TRIAL="+dir, "GORACE=atexit_sleep_ms=0", "HOME="+dir)
	x.write()
	outputs := []string{"out.jsonl", "out.csv", "out.jsonl.gz", "out.csv.zst"}
	x.output = x.path(outputs[int(seed)%len(outputs)])
	x.args = []string{"run", "--input", x.path("in.jsonl"), "--output", x.output, "--batch", strconv.Itoa(1 + random.IntN(16)), "--memory", "1GiB",
		"--workers-per-gpu", strconv.Itoa(1 + random.IntN(4))}
	if seed/uint64(len(outputs))%2 == 0 {
		x.args = append(x.args, "--ordered")
	}
	x.args = append(x.args, "--", "batchworker")
	return x
}

func (x *trial) path(name string) string { return filepath.Join(x.dir, name) }

// write makes an input with a few faults.
func (x *trial) write() {
	faults := map[int]string{}
	for _, fault := range []string{"daemon", "daemon", "die", "runner", "daemon"}[:2+x.random.IntN(4)] {
		faults[x.random.IntN(x.records)] = fault
	}
	var text strings.Builder
	for i := range x.records {
		fmt.Fprintf(&text, "{\"id\":%d,\"do\":%q}\n", i, faults[i])
	}
	loads := []string{"", "daemon", "die"}[x.random.IntN(3)] // what goes wrong when the first worker loads
	err := errors.Join(os.WriteFile(x.path("in.jsonl"), []byte(text.String()), 0o600), os.WriteFile(x.path("load"), []byte(loads), 0o600))
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Logf("%d records, faults %v, at the first load %q", x.records, faults, loads)
}

func (x *trial) run() {
	x.start() // nobody else is there yet
	x.awaitDaemon()
	x.kept.Go(x.keep)
	x.kept.Go(x.obey)
	defer x.stop()
	for attempt := 0; ; attempt++ {
		cmd := exec.Command("berth", x.args...)
		cmd.Env = x.env
		story, err := cmd.CombinedOutput()
		code := cmd.ProcessState.ExitCode()
		switch {
		case code == 0:
			x.check()
			return
		case code != -1 && code != 3 || attempt > 20: // killed, or the daemon was not there
			x.t.Fatalf("%v\n%s", err, story)
		}
	}
}

// start starts the daemon. The caller holds mu.
func (x *trial) start() {
	log, err := os.OpenFile(x.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		x.t.Error(err)
		return
	}
	defer log.Close()
	daemon := exec.Command("berth", "serve", "--devices", "sim:2", "--listen", "", "--state-dir", x.path("state"))
	daemon.Env = append(x.env, "NOTIFY_SOCKET="+x.path("n"), "BERTH_GPU_MAX_PIPELINES=1")
	daemon.Stderr = log
	if err := daemon.Start(); err != nil {
		x.t.Error(err)
		return
	}
	x.daemon = daemon
}

// obey kills the daemon when a worker says so, which waits for it.
func (x *trial) obey() {
	for {
		conn, err := x.orders.Accept()
		if err != nil {
			return
		}
		x.kill()
		_ = conn.Close()
	}
}

func (x *trial) kill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = x.daemon.Process.Kill() // it may be dead already
}

func (x *trial) awaitDaemon() {
	if _, err := x.notify.Read(make([]byte, 4096)); err != nil {
		x.t.Fatal(err)
	}
}

// keep starts the daemon again whenever it was killed.
func (x *trial) keep() {
	for {
		_ = x.daemon.Wait() // it was killed
		if !x.startAgain() {
			return
		}
	}
}

func (x *trial) startAgain() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.start()
	}
	return !x.over
}

func (x *trial) stop() {
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	x.kill()
	_ = x.orders.Close()
	x.kept.Wait()
	_ = x.notify.Close()
}

func (x *trial) check() {
	rows := x.rows()
	if !slices.Contains(x.args, "--ordered") {
		slices.SortFunc(rows, func(a, b outcome) int { return a.ID - b.ID })
	}
	want := make([]outcome, x.records)
	for i := range want {
		want[i] = outcome{i, 2 * i}
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		x.t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Stat(x.output + ".berth"); err == nil {
		x.t.Error("the folder beside the output is still there")
	}
	// A daemon that is just being started does not answer yet.
	for range 1000 {
		leases := exec.Command("berth", "leases")
		leases.Env = x.env
		if text, err := leases.CombinedOutput(); err == nil && strings.HasPrefix(string(text), "Nobody holds a lease") {
			return
		}
	}
	x.t.Error("somebody still holds a lease, or the daemon is gone")
}

// outcome is what a record comes out as.
type outcome struct {
	ID    int `json:"id"`
	Twice int `json:"twice"`
}

// rows reads the output, however it is written.
func (x *trial) rows() []outcome {
	data, err := os.ReadFile(x.output)
	if err != nil {
		x.t.Fatal(err)
	}
	var r io.Reader = bytes.NewReader(data)
	switch filepath.Ext(x.output) {
	case ".gz":
		r, err = gzip.NewReader(r)
	case ".zst":
		r, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	}
	if err != nil {
		x.t.Fatal(err)
	}
	var rows []outcome
	if strings.Contains(x.output, ".csv") {
		table, err := csv.NewReader(r).ReadAll()
		if err != nil || len(table) == 0 || strings.Join(table[0], ",") != "id,twice,_more,_error" {
			x.t.Fatalf("%v, %.1v", err, table)
		}
		for _, row := range table[1:] {
			id, err1 := strconv.Atoi(row[0])
			twice, err2 := strconv.Atoi(row[1])
			if err := errors.Join(err1, err2); err != nil {
				x.t.Fatal(err)
			}
			rows = append(rows, outcome{id, twice})
		}
		return rows
	}
	for lines := json.NewDecoder(r); lines.More(); {
		var o outcome
		if err := lines.Decode(&o); err != nil {
			x.t.Fatal(err)
		}
		rows = append(rows, o)
	}
	return rows
}

// batchWorker is the worker of these batches.
func batchWorker() {
	dir := os.Getenv("BERTH_TEST_TRIAL")
	in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
	once := func(name string) bool {
		f, err := os.OpenFile(filepath.Join(dir, "marks", name), os.O_CREATE|os.O_EXCL, 0o600)
		_ = f.Close() // of none, if it was there
		return err == nil
	}
	fault := func(name, what string) {
		if what == "" || !once(name) {
			return
		}
		switch what {
		case "die":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "runner":
			_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		case "daemon":
			if conn, err := net.Dial("unix", filepath.Join(dir, "k")); err == nil {
				_, _ = io.ReadAll(conn) // until it is done
			}
		}
	}
	load, _ := os.ReadFile(filepath.Join(dir, "load"))
	fault("load", string(load))
	fmt.Fprintln(out, `{"type":"ready","protocol":1}`)
	for {
		line, err := in.ReadBytes('\n')
		var frame struct {
			Type    string
			ID      int64
			Records []struct {
				ID int
				Do string
			}
		}
		if err != nil || json.Unmarshal(line, &frame) != nil || frame.Type != "batch" {
			return
		}
		outcomes := []outcome{}
		for _, r := range frame.Records {
			fault(strconv.Itoa(r.ID), r.Do)
			outcomes = append(outcomes, outcome{r.ID, 2 * r.ID})
		}
		text, _ := json.Marshal(outcomes)
		fmt.Fprintf(out, `{"type":"result","id":%d,"outcomes":%s}`+"\n", frame.ID, text)
	}
}
