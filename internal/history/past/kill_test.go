package past

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/history/series"
)

var kills = flag.Int("past.kills", 3, "how often a writer is killed with -9")

// writerEnv makes the test binary a writer to the store in this folder.
const writerEnv = "BERTH_PAST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		if err := keepWriting(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// keepWriting writes seconds until it is killed, and says which ones are
// written.
func keepWriting(dir string) error {
	p, err := Open(dir, Options{Settings: Settings{Recent: 2 * time.Hour, Long: 24 * time.Hour, Size: 64}})
	if err != nil {
		return err
	}
	at := noon.UnixMilli()
	if p.recent.newest > at {
		at = p.recent.newest + 1000
	}
	for n := 0; ; n++ {
		list := make([]series.Sample, 50)
		for i := range list {
			list[i] = sample("gpu_load_"+strconv.Itoa(i), series.Gauge, float64(at/1000))
		}
		if err := p.Write(time.UnixMilli(at), list); err != nil {
			return err
		}
		fmt.Println(at)
		if n%200 == 199 {
			p.Tidy(time.UnixMilli(at))
		}
		at += 1000
	}
}

// A writer that is killed with -9 at any moment leaves a store that opens, and
// that has everything which was written.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	first, last := int64(0), int64(0)
	for round := range *kills {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), writerEnv+"="+dir)
		writer.Stderr = os.Stderr
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + random.IntN(1500) { // most rounds end between two blocks, some while one is written
			if !lines.Scan() {
				t.Fatalf("round %d (seed %d): the writer ended by itself", round, seed)
			}
		}
		_ = writer.Process.Kill()
		for {
			if last, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
				t.Fatal(err)
			}
			if first == 0 {
				first = last
			}
			if !lines.Scan() {
				break
			}
		}
		_ = writer.Wait() // it was killed
		p, events := open(t, dir, Settings{Recent: 2 * time.Hour, Long: 24 * time.Hour, Size: 64})
		if list := events.take(); len(list) > 0 {
			t.Fatalf("round %d (seed %d): %s", round, seed, list[0].Text)
		}
		from := max(first, last-time.Hour.Milliseconds())
		got := read(t, p, "gpu_load_7", time.UnixMilli(from), time.UnixMilli(last))
		if want := int(last-from)/1000 + 1; len(got) != want || got[len(got)-1].v != float64(last/1000) {
			t.Fatalf("round %d (seed %d): %d of %d samples up to %d", round, seed, len(got), want, last)
		}
		// Half-minutes too, but for the one that is being collected.
		halves := read(t, p, "gpu_load_7:max", time.UnixMilli(from+30_000), time.UnixMilli(last))
		if want := int(last/30_000 - (from+29_999)/30_000); len(halves) < want-1 {
			t.Fatalf("round %d (seed %d): %d of %d half-minutes", round, seed, len(halves), want)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
