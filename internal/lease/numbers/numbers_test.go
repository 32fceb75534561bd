package numbers

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/file/journal"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, path string) *Numbers {
	t.Helper()
	n, damage := Open(path, noon)
	if damage != nil {
		t.Fatal(damage)
	}
	return n
}

func take(t *testing.T, n *Numbers) int64 {
	t.Helper()
	number, err := n.Next()
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// However often and whenever a daemon is killed or stopped, no number comes twice, and
// the numbers grow.
func TestNoNumberTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.json")
	last := int64(0)
	for life := range 3 * block {
		n := open(t, path)
		for range life {
			number := take(t, n)
			if number <= last || number > last+1+block {
				t.Fatalf("%d comes after %d", number, last)
			}
			last = number
		}
		if life%2 == 0 { // else it is killed
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			if got := take(t, open(t, path)); got != last+1 {
				t.Fatalf("after %d and a stop comes %d", last, got)
			} else {
				last = got
			}
		}
	}
}

// A number that the disk does not take is refused as a grant is then: it can be had later.
func TestNumbersOnABrokenDisk(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "gone")
	n := open(t, filepath.Join(folder, "numbers.json"))
	failed := (*journal.WriteError)(nil)
	if _, err := n.Next(); !errors.As(err, &failed) {
		t.Errorf("it is refused with %v", err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	take(t, n)
}

func TestNumbersOfManyAtOnce(t *testing.T) {
	n := open(t, filepath.Join(t.TempDir(), "numbers.json"))
	var given sync.Map
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				number, err := n.Next()
				if _, twice := given.LoadOrStore(number, true); twice || err != nil {
					t.Errorf("%d, twice %t: %v", number, twice, err)
				}
			}
		})
	}
	all.Wait()
	if got := take(t, n); got != 401 {
		t.Errorf("after 400 numbers comes %d", got)
	}
}

// A number that a later Close takes back is not given out without the disk.
func TestNumbersAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.json")
	n := open(t, path)
	take(t, n)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if got := take(t, n); got != 2 {
		t.Fatalf("after 1 comes %d", got)
	}
	if got := take(t, open(t, path)); got <= 2 {
		t.Errorf("%d was given before", got)
	}
}

func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.json")
	for text, why := range map[string]string{"": "empty", `{"version":1}`: "no number", `{"version":2,"next":9}`: "a later version"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n, damage := Open(path, noon)
		if damage == nil {
			t.Fatalf("%s: nobody is told", why)
		}
		if got := take(t, n); got != noon.Unix() {
			t.Errorf("%s: the first number is %d", why, got)
		}
		if got := take(t, open(t, path)); got <= noon.Unix() {
			t.Errorf("%s: %d was given before", why, got)
		}
	}
}

// If the file is missing or old, no number comes again that somebody still knows.
func TestMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.json")
	n := open(t, path)
	n.Given(0, noon)
	if got := take(t, n); got != 1 {
		t.Errorf("the first number is %d", got)
	}
	n = open(t, path)
	n.Given(block, noon)
	if got := take(t, n); got != block+1 {
		t.Errorf("after a number that the file knows comes %d", got)
	}
	n = open(t, path)
	n.Given(1000, noon)
	if got := take(t, n); got != noon.Unix() {
		t.Errorf("after a number that the file does not know comes %d", got)
	}
	if got := take(t, open(t, path)); got <= noon.Unix() {
		t.Errorf("%d was given before", got)
	}
}

func TestAbove(t *testing.T) {
	for _, c := range []struct {
		name, file, other string // empty: it is not there
		want              int64
	}{
		{"the other is later", `{"version":1,"next":33}`, `{"version":1,"next":49}`, 49},
		{"the other is earlier", `{"version":1,"next":33}`, `{"version":1,"next":17}`, 33},
		{"no other", `{"version":1,"next":33}`, "", 33},
		{"the other alone", "", `{"version":1,"next":49}`, 49},
		{"the other is damaged", `{"version":1,"next":33}`, "{", noon.Unix()},
		{"it is damaged", "{", `{"version":1,"next":49}`, noon.Unix()},
	} {
		folder := t.TempDir()
		path, other := filepath.Join(folder, "numbers.json"), filepath.Join(folder, "other", "numbers.json")
		if err := os.Mkdir(filepath.Dir(other), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{path: c.file, other: c.other} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := Above(path, other, noon); err != nil {
			t.Fatal(err)
		}
		n, _ := Open(path, noon)
		if got := take(t, n); got != c.want {
			t.Errorf("%s: the first number is %d, want %d", c.name, got, c.want)
		}
	}
}

func TestFullDisk(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	n := open(t, filepath.Join(folder, "numbers.json")) // there is no such folder
	if got, err := n.Next(); err == nil {
		t.Fatalf("%d is given out, and nothing remembers it", got)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := take(t, n); got != 1 {
		t.Errorf("the first number is %d", got)
	}
}
