package chunk

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		cause    Cause
		records  int
		failures int
		want     Verdict
	}{
		{Withdrawn, 1, 99, Again},
		{Withdrawn, 128, 0, Again},
		{Died, 128, 0, Split},
		{Hung, 2, 0, Split},
		{OutOfMemory, 2, 0, Split},
		{Refused, 2, 0, Split},
		{Refused, 1, 1, Mark},
		{Died, 1, 1, Alone},
		{Died, 1, 2, Alone},
		{Died, 1, 3, Mark},
		{Nonsense, 1, 3, Mark},
		{OutOfMemory, 1, 1, Alone},
	} {
		if got := Judge(test.cause, test.records, test.failures, 3); got != test.want {
			t.Errorf("Judge(%s, %d records, %d failures) = %d, want %d", test.cause, test.records, test.failures, got, test.want)
		}
	}
}

// Parts cover the batch, in order, without an empty one.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 1000).Draw(t, "n")
		cause := rapid.SampledFrom([]Cause{Died, Hung, Nonsense, OutOfMemory, Refused}).Draw(t, "cause")
		ends := Parts(cause, n)
		last := 0
		for _, end := range ends {
			if end <= last || end-last >= n {
				t.Fatalf("Parts(%d) = %v", n, ends)
			}
			last = end
		}
		if last != n {
			t.Fatalf("Parts(%d) = %v", n, ends)
		}
	})
}

// A worker that dies of some records finds exactly those, however they lie, in
// a number of deaths that does not grow with the innocent.
func TestBisectionFindsThePoison(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 512).Draw(t, "n")
		cause := rapid.SampledFrom([]Cause{Died, Hung, Nonsense, OutOfMemory, Refused}).Draw(t, "cause")
		poison := map[int]bool{}
		for range rapid.IntRange(0, 4).Draw(t, "poison") {
			poison[rapid.IntRange(0, n-1).Draw(t, "record")] = true
		}
		type group struct{ from, to, failures int }
		queue, settled, deaths := []group{{0, n, 0}}, map[int]bool{}, 0
		for len(queue) > 0 {
			g := queue[0]
			queue = queue[1:]
			bad := false
			for i := g.from; i < g.to; i++ {
				bad = bad || poison[i]
			}
			if !bad {
				for i := g.from; i < g.to; i++ {
					settled[i] = false
				}
				continue
			}
			deaths++
			if g.to-g.from == 1 {
				g.failures++
			}
			switch Judge(cause, g.to-g.from, g.failures, 3) {
			case Split:
				from := g.from
				for _, end := range Parts(cause, g.to-g.from) {
					queue = append(queue, group{from, g.from + end, 0})
					from = g.from + end
				}
			case Alone:
				queue = append(queue, g)
			case Mark:
				settled[g.from] = true
			default:
				t.Fatal("a culprit went free")
			}
		}
		for i := range n {
			marked, ok := settled[i]
			if !ok || marked != poison[i] {
				t.Fatalf("record %d: settled %v, marked %v, poison %v", i, ok, marked, poison[i])
			}
		}
		if most := len(poison) * (10 + 3); deaths > most {
			t.Fatalf("%d deaths for %d poison records among %d", deaths, len(poison), n)
		}
	})
}

func TestBackoff(t *testing.T) {
	last := time.Duration(-1)
	for failures := range 100 {
		b := Backoff(100*time.Millisecond, failures)
		if b < last || b > 10*time.Second {
			t.Fatalf("Backoff(%d) = %s after %s", failures, b, last)
		}
		last = b
	}
	if last != 10*time.Second || Backoff(time.Second, 0) != 0 {
		t.Errorf("Backoff ends at %s and begins at %s", last, Backoff(time.Second, 0))
	}
}
