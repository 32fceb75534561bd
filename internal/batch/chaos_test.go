package batch

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

var (
	chaosRuns = flag.Int("batch.runs", 12, "runs of the test with random faults")
	chaosSeed = flag.Uint64("batch.seed", 1, "seed of the first of them; each further one adds 1")
)

// Runs with faults of every kind at random moments: workers that die, hang and
// talk nonsense, all of them at once, poison, memory, leases that are lost, a
// full disk, and the runner itself killed, several times, and started again.
// At the end every record has exactly one outcome, and it is the one that a
// run without faults would have given.
func TestChaos(t *testing.T) {
	t.Parallel()
	for i := range *chaosRuns {
		seed := *chaosSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			newChaos(t, seed).run()
		})
	}
}

type chaos struct {
	t    *testing.T
	rng  *rand.Rand
	b    *bench
	jobs []job
	spec runnerSpec
}

func newChaos(t *testing.T, seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 6))
	c := &chaos{t: t, rng: rng, jobs: plain(20 + rng.IntN(400))}
	once := []string{"die", "exit", "garbage", "no json", "few", "other", "torn", "child", "memory", "bye", "prints", "reports"}
	c.scatter(rng.IntN(6), once...)
	c.scatter(rng.IntN(4), "bad", "poison", "giant", "refuse")
	c.scatter(rng.IntN(3), "siblings")
	c.scatter(rng.IntN(3), "runner")
	c.spec.Timeout = time.Minute
	if rng.IntN(6) == 0 {
		c.scatter(1, "hang")
		c.spec.Timeout = 2 * time.Second
	}
	c.b = newBench(t, c.jobs)
	c.spec.Input, c.spec.Marks = c.b.path("in.jsonl"), c.b.path("marks")
	c.spec.Output = c.b.path([]string{"out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out.csv", "out.csv.gz", "out.csv.zst"}[rng.IntN(6)])
	c.spec.Shape = outcome.Shape{Ordered: rng.IntN(2) == 0}
	c.spec.Cost = []record.Cost{{}, {By: record.ByNothing}, {By: record.ByField, Field: "id"}}[rng.IntN(3)]
	c.spec.GPUs, c.spec.PerGPU, c.spec.Batch = 1+rng.IntN(3), 1+rng.IntN(2), 1+rng.IntN(32)
	c.spec.Lose = map[int]int{}
	for range rng.IntN(3) {
		c.spec.Lose[rng.IntN(10)] = rng.IntN(c.spec.GPUs)
	}
	return c
}

// scatter puts n of these faults into records that have none.
func (c *chaos) scatter(n int, of ...string) {
	for range n {
		if j := &c.jobs[c.rng.IntN(len(c.jobs))]; j.Do == "" {
			j.Do = of[c.rng.IntN(len(of))]
		}
	}
}

func (c *chaos) run() {
	kills := c.rng.IntN(4)
	if c.rng.IntN(5) == 0 {
		c.spec.FileLimit = uint64(1 + c.rng.IntN(20000))
	}
	c.t.Logf("%d records, up to %d kills of the runner, %+v", len(c.jobs), kills, c.spec)
	for attempt := 0; ; attempt++ {
		var kill func(string) bool
		if attempt < kills {
			left := c.rng.IntN(60)
			kill = func(string) bool { left--; return left < 0 }
		}
		code, story := runRunner(c.t, c.spec, kill)
		switch {
		case code == runnerDone, code == runnerExists && attempt > 0: // killed when all was done
			c.check(story)
			return
		case code == -1 && attempt < 10:
		case code == runnerFull && c.spec.FileLimit > 0:
			c.spec.FileLimit = 0
		default:
			c.t.Fatalf("attempt %d: exit code %d\n%s", attempt, code, story)
		}
	}
}

func (c *chaos) check(story string) {
	lines := c.lines()
	if len(lines) != len(c.jobs) {
		c.t.Fatalf("%d lines for %d records\n%s", len(lines), len(c.jobs), story)
	}
	if !c.spec.Shape.Ordered {
		slices.SortFunc(lines, func(a, b string) int { return idOf(a) - idOf(b) })
	}
	for i, j := range c.jobs {
		if idOf(lines[i]) != j.ID {
			c.t.Fatalf("line %d is %s\n%s", i, lines[i], story)
		}
		if !slices.Contains(guilty, j.Do) && strings.Contains(lines[i], "_error") {
			c.t.Log(story)
		}
		checkLine(c.t, j, lines[i])
	}
	if _, err := os.Stat(outcome.Dir(c.spec.Output)); err == nil {
		c.t.Error("the folder beside the output is still there")
	}
}

func idOf(line string) int {
	var j job
	_ = json.Unmarshal([]byte(line), &j)
	return j.ID
}

func (c *chaos) lines() []string {
	data, err := os.ReadFile(c.spec.Output)
	if err != nil {
		c.t.Fatal(err)
	}
	var r io.Reader = bytes.NewReader(data)
	if strings.HasSuffix(c.spec.Output, ".gz") {
		r, err = gzip.NewReader(r)
	} else if strings.HasSuffix(c.spec.Output, ".zst") {
		r, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.Contains(c.spec.Output, ".csv") {
		return fromCSV(c.t, r)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(text)))
}

// fromCSV puts the rows of a CSV together again: a field is in its column, or
// with the others in the last but one.
func fromCSV(t *testing.T, r io.Reader) []string {
	t.Helper()
	table, err := csv.NewReader(r).ReadAll()
	if err != nil || len(table) == 0 {
		t.Fatalf("%v, %d rows", err, len(table))
	}
	var lines []string
	for _, row := range table[1:] {
		var all struct {
			job
			Twice *int   `json:"twice"`
			Error string `json:"_error"`
		}
		fields := map[string]any{}
		for i, name := range table[0] {
			switch {
			case row[i] == "":
			case name == "_more":
				err = json.Unmarshal([]byte(row[i]), &fields)
			case name == "do" || name == "_error":
				fields[name] = row[i]
			default:
				fields[name] = json.RawMessage(row[i])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(fields)
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		if all.Error == "" && all.Twice != nil {
			text = []byte(fmt.Sprintf(`{"id":%d,"twice":%d}`, all.ID, *all.Twice))
		}
		lines = append(lines, string(text)+"\n")
	}
	return lines
}
