package past

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

// retry makes the store try again at once.
func retry(p *Past) {
	p.write.Lock()
	defer p.write.Unlock()
	p.pause.tried = time.Time{}
}

// What cannot be asked now is not damaged, and stays where it is.
func TestPassing(t *testing.T) {
	for _, err := range []error{unix.ENOSPC, unix.EMFILE, unix.EACCES, unix.ESTALE, unix.ETIMEDOUT} {
		if !passing(&fs.PathError{Op: "open", Path: "index", Err: err}) {
			t.Errorf("%v is damage", err)
		}
	}
	for _, err := range []error{unix.EIO, unix.ENOENT, unix.EISDIR, unix.ENOTDIR, unix.EINVAL, errors.New("invalid checksum")} {
		if passing(&fs.PathError{Op: "open", Path: "index", Err: err}) {
			t.Errorf("%v is no damage", err)
		}
	}
}

// A disk without a second name for a file costs a copy of the log, not the log.
func TestNoSecondNames(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "00000000"), []byte("log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", to, "tmpfs", 0, "size=1m"); err != nil { // no file has a name on two disks
		t.Skipf("no disk can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
	if size, err := linkAll(from, to); size != 3 || err != nil {
		t.Errorf("%d bytes, %v", size, err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "00000000")); string(text) != "log" || err != nil {
		t.Errorf("the copy is %q, %v", text, err)
	}
}

func TestAFullDiskMakesAPause(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	events := &told{}
	p, err := Open(t.TempDir(), Options{Settings: usual, Event: events.tell, Free: func(string) (int64, error) { return free.Load(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	free.Store(5 << 20)
	p.Tidy(noon)
	p.Tidy(noon)
	list := events.take()
	if len(list) != 1 || list[0].Severity != gpu.Warning || !strings.Contains(list[0].Text, "The past pauses: the disk is nearly full: 5 MiB are free") || !p.Cost().Paused {
		t.Fatalf("the events are %+v", list)
	}
	one := []series.Sample{sample("gpu_load", series.Gauge, 1)}
	for second := range 5 {
		if err := p.Write(noon.Add(time.Minute+time.Duration(second)*time.Second), one); err == nil {
			t.Fatal("a sample is stored on a full disk")
		}
	}
	retry(p)
	if err := p.Write(noon.Add(70*time.Second), one); !errors.Is(err, errNoRoom) {
		t.Fatalf("a disk that is still full: %v", err)
	}
	if got := read(t, p, "gpu_load", noon, noon.Add(time.Hour)); len(got) != 60 {
		t.Errorf("%d samples can be read in the pause", len(got))
	}
	if list := events.take(); len(list) > 0 {
		t.Errorf("the same is told again: %s", list[0].Text)
	}
	free.Store(1 << 40)
	retry(p)
	if err := p.Write(noon.Add(80*time.Second), one); err != nil {
		t.Fatal(err)
	}
	list = events.take()
	if len(list) != 1 || list[0].Severity != gpu.Note || !strings.Contains(list[0].Text, "goes on") || !strings.Contains(list[0].Text, "6 samples are missing") || p.Cost().Paused || p.Cost().Dropped != 6 {
		t.Errorf("the events are %+v, and the cost %+v", list, p.Cost())
	}
	if got := read(t, p, "gpu_load", noon, noon.Add(time.Hour)); len(got) != 61 {
		t.Errorf("%d samples can be read after the pause", len(got))
	}
}

// A write that fails makes a pause, and the store agrees with its files after it.
func TestAWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	p, events := open(t, dir, usual)
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	// The log is closed under the store, as after an error of the disk.
	if err := p.recent.db.Head().Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(noon.Add(time.Minute), []series.Sample{sample("another", series.Gauge, 1)}); err == nil {
		t.Fatal("a sample is stored in a log that is closed")
	}
	list := events.take()
	if len(list) != 1 || !strings.Contains(list[0].Text, "The past pauses") {
		t.Fatalf("the events are %+v", list)
	}
	retry(p)
	fill(t, p, noon.Add(2*time.Minute), noon.Add(3*time.Minute), time.Second)
	if got := read(t, p, "gpu_load", noon, noon.Add(time.Hour)); len(got) != 120 {
		t.Errorf("%d samples can be read", len(got))
	}
	if list := events.take(); len(list) != 1 || !strings.Contains(list[0].Text, "goes on") {
		t.Errorf("the events are %+v", list)
	}
}

// A folder that cannot be made is no reason to stop.
func TestAFolderThatCannotBeMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(dir, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	events := &told{}
	p := New(filepath.Join(dir, "past"), Options{Settings: usual, Event: events.tell})
	defer p.Close()
	p.Tidy(noon)
	if list := events.take(); len(list) != 1 || !strings.Contains(list[0].Text, "The past pauses: make the folder of the past") {
		t.Fatalf("the events are %+v", list)
	}
	if _, err := p.Queryable().Querier(0, 1); !errors.Is(err, ErrOpening) {
		t.Errorf("a query says %v", err)
	}
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	retry(p)
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	if got := read(t, p, "gpu_load", noon, noon.Add(time.Hour)); len(got) != 60 {
		t.Errorf("%d samples can be read", len(got))
	}
}

// Nobody waits for a disk that is slow.
func TestASlowDiskDropsSamples(t *testing.T) {
	p, _ := open(t, t.TempDir(), usual) // nothing takes what is handed over
	one := []series.Sample{sample("gpu_load", series.Gauge, 1)}
	for i := range queueSize + 3 {
		err := p.Append(noon.Add(time.Duration(i)*time.Second), one)
		if full := i >= queueSize; errors.Is(err, ErrBusy) != full {
			t.Fatalf("list %d: %v", i, err)
		}
	}
	if c := p.Cost(); c.Dropped != 3 {
		t.Errorf("the cost is %+v", c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Run(ctx) // stores what was handed over
	if got := read(t, p, "gpu_load", noon, noon.Add(time.Hour)); len(got) != queueSize {
		t.Errorf("%d samples can be read", len(got))
	}
}

func TestOff(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "past")
	p := New(dir, Options{Settings: Settings{Off: true}})
	p.Tidy(noon)
	if err := p.Append(noon, []series.Sample{sample("gpu_load", series.Gauge, 1)}); err != nil || len(p.in) > 0 {
		t.Errorf("a sample is taken: %v", err)
	}
	if _, err := p.Queryable().Querier(0, 1); !errors.Is(err, ErrOff) || p.On() {
		t.Errorf("a query says %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a folder: %v", err)
	}
	if got := p.Text(); got != "The past is off" {
		t.Errorf("it says %q", got)
	}
	p.Configure(usual)
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	if got := read(t, p, "gpu_load", noon, noon.Add(time.Hour)); len(got) != 60 {
		t.Errorf("%d samples after it was turned on", len(got))
	}
	p.Configure(Settings{Off: true})
	p.Tidy(noon)
	if c := p.Cost(); c.Bytes == 0 || c.Paused || c.Dropped != 0 || p.Text() != "The past is off. An earlier one takes 1 MiB in "+dir {
		t.Errorf("the cost is %+v, in words: %s", c, p.Text())
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "recent", "wal")); err != nil {
		t.Errorf("the folder of a past that is off: %v", err)
	}
	var none *Past
	none.Configure(usual)
	none.Run(t.Context())
	if err := errors.Join(none.Append(noon, nil), none.Close()); err != nil || none.On() || none.Cost() != (Cost{}) {
		t.Errorf("no store at all: %v", err)
	}
}

// Half-minutes have no hole where the daemon was stopped or killed.
func TestHalfMinutesAcrossARestart(t *testing.T) {
	dir := t.TempDir()
	p, _ := open(t, dir, usual)
	fill(t, p, noon, noon.Add(75*time.Second), time.Second)
	if err := p.Close(); err != nil { // what is collected is not stored by that
		t.Fatal(err)
	}
	p, _ = open(t, dir, usual)
	fill(t, p, noon.Add(80*time.Second), noon.Add(3*time.Minute), time.Second)
	want := []point{{30, 29}, {60, 59}, {90, 89}, {120, 119}, {150, 149}}
	got := read(t, p, "gpu_load:max", noon, noon.Add(time.Hour))
	for i := range got {
		got[i].t = got[i].t/1000 - noon.Unix()
	}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	least := read(t, p, "gpu_load:min", noon, noon.Add(time.Hour))
	if least[2].v != 60 {
		t.Errorf("the half-minute of the restart begins with %g", least[2].v)
	}
	if list := read(t, p, "work_total:max", noon, noon.Add(time.Hour)); len(list) > 0 {
		t.Errorf("a counter has the most: %v", list)
	}
}

// A half-minute that cannot be stored at its end is stored when the past goes on.
func TestAHalfMinuteThatFails(t *testing.T) {
	p, events := open(t, t.TempDir(), usual)
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	if err := p.long.db.Head().Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(noon.Add(time.Minute), []series.Sample{sample("gpu_load", series.Gauge, 1)}); err == nil {
		t.Fatal("a half-minute is stored in a log that is closed")
	}
	retry(p)
	fill(t, p, noon.Add(2*time.Minute), noon.Add(3*time.Minute), time.Second)
	var most []float64
	for _, found := range read(t, p, "gpu_load:max", noon, noon.Add(150*time.Second)) {
		most = append(most, found.v)
	}
	if want := []float64{29, 59, 149}; !slices.Equal(most, want) {
		t.Errorf("the most of each half-minute is %v, want %v", most, want)
	}
	if list := events.take(); len(list) != 2 {
		t.Errorf("the events are %+v", list)
	}
}

// A panic of the storage makes a pause like any other failure.
func TestAWriteThatPanics(t *testing.T) {
	p, events := open(t, t.TempDir(), usual)
	fill(t, p, noon, noon.Add(time.Minute), time.Second)
	db := p.recent.db
	p.recent.db = nil
	one := []series.Sample{sample("gpu_load", series.Gauge, 1)}
	if err := p.Write(noon.Add(time.Minute), one); err == nil || !strings.Contains(err.Error(), "the storage failed") {
		t.Fatalf("a storage that is not there: %v", err)
	}
	if list := events.take(); len(list) != 1 || !strings.Contains(list[0].Text, "The past pauses") || !p.Cost().Paused || p.Cost().Dropped != 1 {
		t.Errorf("the events are %+v, and the cost %+v", list, p.Cost())
	}
	p.recent.db = db
	retry(p)
	if err := p.Write(noon.Add(2*time.Minute), one); err != nil || p.Cost().Paused {
		t.Errorf("after the pause: %v", err)
	}
}
