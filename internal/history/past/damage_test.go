package past

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

// filled copies a store, and returns where its samples end.
func filled(t *testing.T, model string) (dir string, end time.Time) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(model)); err != nil {
		t.Fatal(err)
	}
	return dir, noon.Add(13 * time.Hour)
}

// fillModel makes a store with some blocks and a log, and closes it.
func fillModel(t *testing.T) (dir string) {
	t.Helper()
	end := noon.Add(12 * time.Hour)
	dir = t.TempDir()
	p, _ := open(t, dir, usual)
	fill(t, p, noon, noon.Add(time.Hour), 2*time.Minute)
	fill(t, p, noon.Add(11*time.Hour), end, 2*time.Minute)
	p.Tidy(end)
	for at := end; at.Before(end.Add(time.Hour)); at = at.Add(15 * time.Second) { // a log of many pages
		list := []series.Sample{sample("gpu_load", series.Gauge, 1)}
		for i := range 60 {
			list = append(list, sample("noise_"+strconv.Itoa(i), series.Gauge, float64(at.Unix()*int64(i+7)%9973)/7))
		}
		if err := p.Write(at, list); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// overwrite changes the middle of a file.
func overwrite(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	middle := len(text) / 2
	copy(text[middle:], bytes.Repeat([]byte{0xa5}, min(64, len(text)-middle)))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDamage(t *testing.T) {
	model := fillModel(t)
	t.Run("a log that is torn", func(t *testing.T) { tornLog(t, model) })
	shorten := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Truncate(path, 7); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	zero := func(t *testing.T, path string) {
		t.Helper()
		info, err := os.Stat(path)
		if err == nil {
			err = os.WriteFile(path, make([]byte, info.Size()), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		file   string // the first that fits
		damage func(*testing.T, string)
		later  bool // nobody sees it before it is read
	}{
		"an index that is too short":    {"recent/0*/index", shorten, false},
		"no index":                      {"recent/0*/index", remove, false},
		"a description of nothing":      {"recent/0*/meta.json", shorten, false},
		"no description":                {"long/0*/meta.json", remove, false},
		"an index of nothing":           {"long/0*/index", overwrite, true},
		"chunks with other bytes":       {"recent/0*/chunks/000001", overwrite, true},
		"half-minutes with other bytes": {"long/0*/chunks/000001", overwrite, true},
		"chunks that are too short":     {"recent/0*/chunks/000001", shorten, false},
		"a log with other bytes":        {"recent/wal/0*", overwrite, false},
		"half a log":                    {"long/wal/0*", shorten, false},
		"an empty log": {"recent/wal/0*", func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}, false},
		"a log of zeros": {"recent/wal/0*", zero, false},
		"a log of zeros after kill -9": {"recent/wal/0*", func(t *testing.T, path string) {
			zero(t, path)
			remove(t, filepath.Join(filepath.Dir(path), "..", sizesName))
		}, false},
		"a log that lost its end": {"recent/wal/0*", func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, info.Size()-1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, false},
		"a folder where a file should be": {"recent/wal/0*", func(t *testing.T, path string) {
			remove(t, path)
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
		"a file where a folder should be": {"recent/wal", func(t *testing.T, path string) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("no folder"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, end := filled(t, model)
			files, err := filepath.Glob(filepath.Join(dir, c.file))
			if err != nil || len(files) == 0 {
				t.Fatalf("no file fits %s: %v", c.file, err)
			}
			c.damage(t, files[0])
			p, events := open(t, dir, usual)
			list := events.take()
			if c.later {
				if len(list) > 0 {
					t.Fatalf("an event says: %s", list[0].Text)
				}
				readBadly(t, p, end)
				p.Tidy(end)
				list = events.take()
			}
			if len(list) != 1 || list[0].Severity != gpu.Warning || list[0].Code != gpu.EventPast || !strings.Contains(list[0].Text, filepath.Join(dir, AsideName)) || strings.Contains(list[0].Public, dir) {
				t.Fatalf("the events are %+v", list)
			}
			if aside, err := os.ReadDir(list[0].Data["aside"].(string)); err != nil || len(aside) == 0 {
				t.Fatalf("nothing is put aside: %v, %v", aside, err)
			}
			fill(t, p, end, end.Add(10*time.Minute), 10*time.Second)
			if got := read(t, p, "gpu_load", end, end.Add(10*time.Minute)); len(got) != 60 {
				t.Errorf("%d of 60 samples after the damage", len(got))
			}
			want := 170 // of 300; half-minutes stand in for samples
			if strings.Contains(name, "zeros") || strings.Contains(name, "empty") {
				want = 40 // the first file of the log names the series of the others
			}
			if got := read(t, p, "gpu_load", noon, end); len(got) < want {
				t.Errorf("%d samples from before the damage, want %d", len(got), want)
			}
		})
	}
}

// A file that becomes shorter while it is open fails the questions that read it, and is put
// aside.
func TestDamageWhileOpen(t *testing.T) {
	model := fillModel(t)
	for _, c := range []struct {
		file  string
		index bool
	}{{"recent/0*/index", true}, {"long/0*/index", true}, {"recent/0*/chunks/000001", false}} {
		t.Run(c.file, func(t *testing.T) {
			dir, end := filled(t, model)
			files, err := filepath.Glob(filepath.Join(dir, c.file))
			if err != nil || len(files) == 0 {
				t.Fatalf("no file fits: %v", err)
			}
			p, events := open(t, dir, usual)
			if err := os.Truncate(files[0], 0); err != nil {
				t.Fatal(err)
			}
			readBadly(t, p, end)
			q, err := p.Queryable().Querier(noon.UnixMilli(), end.UnixMilli())
			if err != nil {
				t.Fatal(err)
			}
			name := labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "gpu_load")
			if _, _, err := q.LabelValues(t.Context(), "gpu", nil, name); c.index && err == nil {
				t.Error("values of a label were read")
			}
			if _, _, err := q.LabelNames(t.Context(), nil, name); c.index && err == nil {
				t.Error("names of labels were read")
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			p.Tidy(end)
			if list := events.take(); len(list) != 1 || list[0].Data["aside"] == nil {
				t.Errorf("the events are %+v", list)
			}
			read(t, p, "gpu_load", noon, end)
		})
	}
}

// Whoever leaves before the answer makes nobody look for damage, and what looks like damage
// and is none makes the store look only now and then.
func TestDamageIsSoughtRarely(t *testing.T) {
	p, _ := open(t, t.TempDir(), usual)
	fill(t, p, noon, noon.Add(time.Hour), time.Minute)
	q, err := p.Queryable().Querier(noon.UnixMilli(), noon.Add(time.Hour).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	name := labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, "gpu.*")
	if _, _, err := q.LabelNames(ctx, nil, name); !errors.Is(err, context.Canceled) {
		t.Errorf("names of labels for somebody who left: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if p.counted.suspected.Load() {
		t.Error("somebody who left makes the store look for damage")
	}
	now := noon.Add(time.Hour)
	for _, c := range []struct {
		after time.Duration
		looks bool
	}{{0, true}, {lookAgain - 1, false}, {lookAgain, true}} {
		p.suspect()
		p.Tidy(now.Add(c.after))
		if got := !p.counted.suspected.Load(); got != c.looks {
			t.Errorf("after %v: looks for damage: %v, want %v", c.after, got, c.looks)
		}
	}
}

// A look for damage that could not open what it looks at does not count as one.
func TestDamageIsSoughtAgain(t *testing.T) {
	dir, end := filled(t, fillModel(t))
	p, events := open(t, dir, usual)
	var usually unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usually); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: usually.Max}); err != nil {
		t.Fatal(err)
	}
	p.write.Lock()
	p.findDamage(end)
	p.write.Unlock()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usually); err != nil {
		t.Fatal(err)
	}
	if !p.counted.suspected.Load() {
		t.Fatal("the store has looked without files")
	}
	p.Tidy(end.Add(time.Minute))
	if p.counted.suspected.Load() {
		t.Error("a minute later the store does not look")
	}
	if list := events.take(); len(list) > 0 {
		t.Errorf("the events are %+v", list)
	}
}

// readBadly reads everything, and expects that to fail.
func readBadly(t *testing.T, p *Past, end time.Time) {
	t.Helper()
	q, err := p.Queryable().Querier(noon.UnixMilli(), end.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, name := range []string{"gpu_load", "gpu_load:min", "gpu_load:max", "work_total"} {
		set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, name))
		for set.Next() {
			it := set.At().Iterator(nil)
			for it.Next() == chunkenc.ValFloat {
			}
			if it.Err() != nil {
				return
			}
		}
		if set.Err() != nil {
			return
		}
	}
	t.Fatal("the damage is not seen")
}

// tornLog checks that what kill -9 leaves at the end of the log is no damage.
func tornLog(t *testing.T, model string) {
	dir, end := filled(t, model)
	files, err := filepath.Glob(filepath.Join(dir, "recent/wal/0*"))
	if err != nil {
		t.Fatal(err)
	}
	last := files[len(files)-1]
	info, err := os.Stat(last)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(last, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "recent", sizesName)); err != nil { // a daemon that is killed writes none
		t.Fatal(err)
	}
	p, events := open(t, dir, usual)
	if list := events.take(); len(list) > 0 {
		t.Errorf("an event says: %s", list[0].Text)
	}
	if got := read(t, p, "gpu_load", end.Add(-30*time.Minute), end); len(got) < 118 {
		t.Errorf("%d samples of the last half hour", len(got))
	}
	if aside, _ := os.ReadDir(filepath.Join(dir, AsideName)); len(aside) > 0 {
		t.Errorf("%v is put aside", aside)
	}
}

// Blocks that are damaged at the same time are kept together.
func TestManyDamagedBlocksAreKept(t *testing.T) {
	dir := t.TempDir()
	for n := range asideMost + 2 {
		if err := os.MkdirAll(filepath.Join(dir, "recent", fmt.Sprintf("0%025d", n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, events := open(t, dir, usual)
	list := events.take()
	if len(list) != 1 {
		t.Fatalf("the events are %+v", list)
	}
	if aside, err := os.ReadDir(list[0].Data["aside"].(string)); err != nil || len(aside) != asideMost+2 {
		t.Errorf("%v are put aside, %v", aside, err)
	}
}

// A log that somebody removed is told, and pushes out nothing that was put aside.
func TestMissingLog(t *testing.T) {
	dir, _ := filled(t, fillModel(t))
	if err := os.RemoveAll(filepath.Join(dir, "recent", "wal")); err != nil {
		t.Fatal(err)
	}
	p, events := open(t, dir, usual)
	list := events.take()
	if len(list) != 1 || !strings.HasPrefix(list[0].Text, "A part of the past is missing: ") {
		t.Errorf("the events are %+v", list)
	}
	if aside, _ := os.ReadDir(p.path(AsideName)); len(aside) != 0 {
		t.Errorf("%v is put aside", aside)
	}
}

func TestFewDamagedFilesAreKept(t *testing.T) {
	p, _ := open(t, t.TempDir(), usual)
	for range asideMost + 2 {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.putAside("recent", os.ErrInvalid, bad); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := os.ReadDir(p.path(AsideName)); err != nil || len(list) != asideMost {
		t.Errorf("%v are kept, %v", list, err)
	}
}
