package outcome

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A run that is killed leaves a file that is as long as the last commit says,
// or longer, and a journal that may end in the middle of a line. A machine
// that loses power may leave less. From every such state the run goes on, and
// ends with the same output.
func TestEveryCrashCanBeResumed(t *testing.T) {
	const total = 40
	for _, shape := range []Shape{{}, {Ordered: true}, {Packing: Gzip}, {Format: CSV, Columns: []string{"id"}}, {Format: CSV, Ordered: true}} {
		t.Run(fmt.Sprintf("%+v", shape), func(t *testing.T) {
			whole := filepath.Join(t.TempDir(), "out")
			l := begin(t, whole, shape, false)
			missing(t, l, total)
			journal, data := snapshot(t, whole)
			finish(t, l, total)
			want := lines(t, whole, shape)

			rng := rand.New(rand.NewPCG(1, 1))
			for _, cut := range cuts(journal, rng) {
				for _, length := range []int{len(data), rng.IntN(len(data) + 1)} {
					path := filepath.Join(t.TempDir(), "out")
					restore(t, path, journal[:cut], data[:length]+strings.Repeat("?", rng.IntN(3)))
					l := begin(t, path, shape, false)
					missing(t, l, total)
					finish(t, l, total)
					if diff := cmp.Diff(want, lines(t, path, shape)); diff != "" {
						t.Fatalf("journal cut at %d, data at %d (-want +got):\n%s", cut, length, diff)
					}
				}
			}
		})
	}
}

// cuts are the ends of all lines, the bytes around them, and some others.
func cuts(journal string, rng *rand.Rand) []int {
	var out []int
	at := 0
	for line := range strings.Lines(journal) {
		at += len(line)
		out = append(out, at, at-1, at-2, min(at+1, len(journal)))
	}
	for range 10 {
		out = append(out, rng.IntN(len(journal)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func snapshot(t *testing.T, path string) (journal, data string) {
	t.Helper()
	j, err := os.ReadFile(filepath.Join(Dir(path), journalName))
	d, err2 := os.ReadFile(filepath.Join(Dir(path), logName))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(j), string(d)
}

func restore(t *testing.T, path, journal, data string) {
	t.Helper()
	err := errors.Join(os.MkdirAll(Dir(path), 0o700),
		os.WriteFile(filepath.Join(Dir(path), journalName), []byte(journal), 0o600),
		os.WriteFile(filepath.Join(Dir(path), logName), []byte(data), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// lines are the lines of the output, sorted unless their order is promised.
func lines(t *testing.T, path string, shape Shape) []string {
	t.Helper()
	if shape.Packing == Gzip {
		if err := os.Rename(path, path+".gz"); err != nil {
			t.Fatal(err)
		}
		path += ".gz"
	}
	got := content(t, path)
	if !shape.Ordered {
		slices.Sort(got)
	}
	return got
}

// Finishing has steps: the ordered file, the word in the journal, the rename,
// the tidying up. After each, the run can be finished again.
func TestFinishCanBeKilledAnywhere(t *testing.T) {
	const total = 30
	for _, ordered := range []bool{false, true} {
		shape := Shape{Ordered: ordered}
		prepare := func(t *testing.T) (string, *Log) {
			path := filepath.Join(t.TempDir(), "out")
			l := begin(t, path, shape, false)
			missing(t, l, total)
			return path, l
		}
		steps := []string{"half ordered", "complete", "renamed", "half removed"}
		for stop := range steps {
			t.Run(fmt.Sprintf("ordered=%t, %s", ordered, steps[stop]), func(t *testing.T) {
				path, l := prepare(t)
				from := logName
				if ordered {
					from = orderedName
					if err := os.WriteFile(filepath.Join(Dir(path), from), []byte(`{"id":`), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if stop >= 1 {
					if ordered {
						if err := l.order(total); err != nil {
							t.Fatal(err)
						}
					}
					if err := l.place.journal.append(entry{Complete: true}); err != nil {
						t.Fatal(err)
					}
				}
				if stop >= 2 {
					if err := l.place.rename(from); err != nil {
						t.Fatal(err)
					}
				}
				if stop >= 3 && ordered {
					if err := os.Remove(filepath.Join(Dir(path), logName)); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = begin(t, path, shape, false)
				if done, _ := l.Counts(); l.Complete() != (stop >= 1) || done != total {
					t.Errorf("complete: %t, %d done", l.Complete(), done)
				}
				finish(t, l, total)
				got, want := content(t, path), wanted(total)
				if !ordered {
					slices.Sort(got)
					slices.Sort(want)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A bit that flips anywhere in the journal costs work and never correctness.
func TestDamagedJournal(t *testing.T) {
	const total = 40
	whole := filepath.Join(t.TempDir(), "out")
	l := begin(t, whole, Shape{Ordered: true}, false)
	missing(t, l, total)
	journal, data := snapshot(t, whole)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	for range 30 {
		path := filepath.Join(t.TempDir(), "out")
		bad := []byte(journal)
		at := rng.IntN(len(bad))
		bad[at] ^= 1 << rng.IntN(8)
		restore(t, path, string(bad), data)
		l := begin(t, path, Shape{Ordered: true}, false)
		missing(t, l, total)
		finish(t, l, total)
		if diff := cmp.Diff(wanted(total), content(t, path)); diff != "" {
			t.Fatalf("byte %d (-want +got):\n%s", at, diff)
		}
	}
}

func TestWriteErrorKnowsAFullDisk(t *testing.T) {
	for err, full := range map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EFBIG: true, syscall.EIO: false} {
		e := writeError("write", "out.jsonl", &os.PathError{Op: "write", Path: "out.jsonl", Err: err})
		if errors.Is(e, ErrFull) != full || !errors.Is(e, err) || strings.Count(e.Error(), "out.jsonl") != 1 {
			t.Errorf("%v: full %t", e, errors.Is(e, ErrFull))
		}
	}
}
