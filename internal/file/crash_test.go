package file_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// score is the value of a state file on a disk that can crash.
type score struct {
	Count int    `json:"count"`
	Long  string `json:"long"`
}

// readScore returns what the next daemon finds on a disk: 0 if there is no file.
func readScore(t *testing.T, d *disktest.Disk) int {
	t.Helper()
	found, err := d.ReadFile("score.json")
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	text, err := file.Unseal("score.json", found)
	var v score
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil || len(v.Long) != 100*v.Count {
		t.Fatalf("it holds %q: %v", found, err)
	}
	return v.Count
}

// saveScores saves 1, 2 and 3, and returns the last one that was saved.
func saveScores(d *disktest.Disk) (saved int) {
	s := file.NewState[score]("score.json", file.StateOptions{What: "the score", Version: 1})
	for n := 1; n <= 3; n++ {
		if s.SaveIn(d, score{n, strings.Repeat("x", 100*n)}) == nil {
			saved = n
		}
	}
	return saved
}

// After a kill or a power cut at any operation on the disk, within any write, the file
// holds the last value that was saved, or the one that was being saved, and is whole.
func TestStateCrashAnywhere(t *testing.T) {
	whole := disktest.New()
	if saveScores(whole) != 3 || readScore(t, whole) != 3 {
		t.Fatal("it is not saved at all")
	}
	for op := range whole.Ops() {
		for _, partial := range []int{0, 1, 20, 100, 1000} {
			for name, crash := range map[string]func(*disktest.Disk){
				"kill":                         (*disktest.Disk).Kill,
				"power cut, nothing unsynced":  func(d *disktest.Disk) { d.PowerCut(disktest.Always(0)) },
				"power cut, all that was left": func(d *disktest.Disk) { d.PowerCut(disktest.Always(1)) },
			} {
				d := disktest.New()
				d.CrashAt(op, partial)
				saved := saveScores(d)
				crash(d)
				if got := readScore(t, d); got < saved || got > saved+1 {
					t.Fatalf("%s at operation %d after %d bytes: it holds %d, and %d was saved", name, op, partial, got, saved)
				}
				if saveScores(d) != 3 || readScore(t, d) != 3 {
					t.Fatalf("%s at operation %d after %d bytes: the next daemon cannot save", name, op, partial)
				}
			}
		}
	}
}

// An operation that fails is told, and the file holds what it held before, or what was
// being saved if only the folder was not synced.
func TestStateFaultAnywhere(t *testing.T) {
	whole := disktest.New()
	saveScores(whole)
	for op := range whole.Ops() {
		d := disktest.New()
		d.FailAt(op, disktest.Fault{Err: syscall.EIO, Partial: 30})
		saveScores(d)
		if got := readScore(t, d); got < 2 {
			t.Fatalf("after a fault at operation %d it holds %d", op, got)
		}
	}
	d := disktest.New()
	s := file.NewState[score]("score.json", file.StateOptions{What: "the score", Version: 1})
	if err := s.SaveIn(d, score{1, strings.Repeat("x", 100)}); err != nil {
		t.Fatal(err)
	}
	d.Fill()
	if err := s.SaveIn(d, score{9, strings.Repeat("x", 900)}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	if got := readScore(t, d); got != 1 {
		t.Errorf("on a full disk it holds %d", got)
	}
	if names, _ := d.List(); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}
