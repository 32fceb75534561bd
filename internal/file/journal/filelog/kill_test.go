package filelog_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
)

const childDir = "BERTH_TEST_JOURNAL_DIR"

// TestWriterThatIsKilled is not a test but the process that TestKill kills: it
// appends for ever, tells of every entry that was acknowledged, and compacts
// now and then.
func TestWriterThatIsKilled(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("only inside TestKill")
	}
	var c counter
	l, _, err := filelog.Open(file.PrivateDir(dir), small, c.replay)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := l.Append([][]byte{c.next(), c.next(), c.next()}, journal.Care{Durable: i%8 == 0}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stdout, c.n)
		if i%20 == 19 {
			if err := l.Compact(c.n, c.snapshot()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A real process, a real disk, kill -9: whatever was acknowledged is there,
// groups are whole, and the next process goes on.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 12 {
		acknowledged := killWriter(t, dir, 1+round*17)
		var c counter
		l, _, err := filelog.Open(file.PrivateDir(dir), small, c.replay)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if c.n < acknowledged || c.n > acknowledged+3 || c.n%3 != 0 {
			t.Fatalf("round %d: %d entries came back, %d were acknowledged", round, c.n, acknowledged)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killWriter runs a writer, kills it after so many acknowledgements, and returns
// the last one it made.
func killWriter(t *testing.T, dir string, after int) (acknowledged uint64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestWriterThatIsKilled$")
	child.Env = append(os.Environ(), childDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan(); i++ {
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil {
			t.Fatalf("the writer says %q", lines.Text())
		}
		acknowledged = n
		if i == after {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the writer ended by itself")
	}
	return acknowledged
}
