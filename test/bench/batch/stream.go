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
	"github.com/berth-gpu/berth/test/bench/figure"
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
	Words   bool     // records are text that compresses about as well as real one
	SSH     []string // reaches this machine; empty for workers of the runner itself
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
		if t.Batch == 8192 {
			figure.Say(fmt.Sprintf("batch, trivial records a second, one worker, ordered %t", t.Ordered), float64(r.Records)/r.Seconds, "records/s", figure.More)
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
		figure.Say(fmt.Sprintf("batch, memory of the runner, %g GB with %d workers", part.share*gb, part.workers), r.PeakMB, "MB", figure.Less)
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
	options := batch.Options{
		Input: record.Spec{Stream: newStream(t)}, Output: filepath.Join(dir, "out.jsonl"), Shape: outcome.Shape{Ordered: t.Ordered},
		Leases: make(places, t.Workers), Batch: t.Batch,
	}
	if len(t.SSH) > 0 {
		session, end, err := connect(t, dir, program)
		if err != nil {
			return err
		}
		defer end()
		options.Leases = session
	}
	s, err := work(worker.Command{Args: []string{"python3", program}, Env: []string{envMode + "="}, Log: os.Stderr}, options)
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
	text []byte // that records of words are pieces of
}

func newStream(t task) *stream {
	s := &stream{task: t}
	if t.Words {
		for x := uint32(1); len(s.text) < 1<<20; {
			x = x*1664525 + 1013904223
			s.text = append(s.text, vocabulary[x>>16%uint32(len(vocabulary))]...)
			s.text = append(s.text, ' ')
		}
	}
	return s
}

// vocabulary is what records of words are made of.
var vocabulary = strings.Fields(`a able above across act add after again age air all also always and animal answer any appear area as ask at
	back base be bed been before began behind best better between big bird black blue boat body book both box boy bring brought build busy but by
	call came can car care carry cause centre change check city class clear close cold colour come common complete contain correct could country course
	cover cross cry cut dark day decide deep did differ direct do dog done door down draw drive dry during each early earth ease east eat end enough even
	ever every example eye face fact fall family far farm fast father feel feet few field figure fill final find fine fire first fish five fly follow food
	foot for force form found four free friend from front full game gave get girl give go gold good got govern great green grew ground group grow had half
	hand happen hard has have he head hear heat help her here high him his hold home horse hot hour house how hundred idea if in inch interest island is it
	just keep kind king knew know land language large last late laugh lay lead learn leave left less let letter life light like line list listen little live`)

func (s *stream) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.rest) == 0 {
			if s.next == s.Records {
				break
			}
			s.line = fmt.Appendf(s.line[:0], `{"id":%d,"text":"`, s.next)
			if s.Words {
				at := int(s.next*7919) % (len(s.text) - s.Bytes)
				s.line = append(s.line, s.text[at:at+s.Bytes-3-len(s.line)]...)
			}
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
