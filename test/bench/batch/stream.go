package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
	"github.com/berth-gpu/berth/internal/batch/worker"
)

//go:embed echo.py
var echoProgram string

// task is a stream of equal records for a runner. The runner is a process of its
// own, so that its memory can be measured.
type task struct {
	Records int64
	Bytes   int // of each
	Batch   int
	Ordered bool
	Workers int
}

// report is what the runner measures.
type report struct {
	Seconds float64
	Records int64
	PeakMB  float64
}

// throughput measures how many records per second pass through a worker that
// does nothing with them.
func throughput() error {
	fmt.Printf("\ntrivial records through one Python worker that returns them as they are\n")
	for _, t := range []task{
		{Records: 1_000_000, Bytes: 60, Batch: 128, Workers: 1},
		{Records: 2_000_000, Bytes: 60, Batch: 1024, Workers: 1},
		{Records: 2_000_000, Bytes: 60, Batch: 8192, Workers: 1},
		{Records: 2_000_000, Bytes: 60, Batch: 8192, Workers: 1, Ordered: true},
	} {
		r, err := t.run()
		if err != nil {
			return err
		}
		fmt.Printf("batches of %-5d ordered %-5t  %9.0f records/s  runner %4.0f MB\n", t.Batch, t.Ordered, float64(r.Records)/r.Seconds, r.PeakMB)
	}
	return nil
}

// memory measures the peak memory of the runner.
func memory(gb float64) error {
	fmt.Printf("\na stream of %g GB, records of 1 KB\n", gb)
	for _, part := range []struct {
		share   float64
		workers int
	}{{0.1, 1}, {0.1, 8}, {1, 8}} {
		t := task{Records: int64(part.share * gb * 1e9 / 1000), Bytes: 1000, Batch: 1024, Workers: part.workers}
		r, err := t.run()
		if err != nil {
			return err
		}
		fmt.Printf("%6.2f GB, %d workers  %9.0f records/s  %4.0f MB/s  runner at most %4.0f MB\n", part.share*gb, part.workers, float64(r.Records)/r.Seconds,
			float64(r.Records)*float64(t.Bytes)/r.Seconds/1e6, r.PeakMB)
	}
	return nil
}

func (t task) run() (report, error) {
	self, err := os.Executable()
	if err != nil {
		return report{}, err
	}
	if _, err := exec.LookPath("python3"); err != nil {
		return report{}, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return report{}, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envMode+"=runner", "BERTH_BENCH_TASK="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return report{}, err
	}
	var r report
	return r, json.Unmarshal(out, &r)
}

// streamRunner runs a task in the process that is measured.
func streamRunner() error {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv("BERTH_BENCH_TASK")), &t); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "echo.py")
	if err := os.WriteFile(program, []byte(echoProgram), 0o600); err != nil {
		return err
	}
	s, err := work(worker.Command{Args: []string{"python3", program}, Env: []string{envMode + "="}, Log: os.Stderr}, batch.Options{
		Input: record.Spec{Stream: newStream(t)}, Output: filepath.Join(dir, "out.jsonl"), Shape: outcome.Shape{Ordered: t.Ordered},
		Leases: make(places, t.Workers), Batch: t.Batch,
	})
	if err != nil {
		return err
	}
	if s.Records != t.Records || s.Failed != 0 {
		return fmt.Errorf("%d of %d records, %d failed", s.Records, t.Records, s.Failed)
	}
	peak, err := peakMB()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report{Seconds: s.Seconds, Records: s.Records, PeakMB: peak})
}

// stream makes records as its reader asks for them.
type stream struct {
	task
	next int64
	line []byte
	rest []byte
}

func newStream(t task) *stream { return &stream{task: t} }

func (s *stream) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.rest) == 0 {
			if s.next == s.Records {
				break
			}
			s.line = fmt.Appendf(s.line[:0], `{"id":%d,"text":"`, s.next)
			for len(s.line) < s.Bytes-3 {
				s.line = append(s.line, 'x')
			}
			s.line = append(s.line, "\"}\n"...)
			s.rest = s.line
			s.next++
		}
		c := copy(p[n:], s.rest)
		s.rest = s.rest[c:]
		n += c
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// peakMB returns the peak memory of this process.
func peakMB() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM, the peak memory")
}
