package past

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/history/series"
)

// A disk that is really full makes a pause. What was stored before can be read,
// also after the disk has room again.
func TestARealFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1500k"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	events := &told{}
	p, err := Open(dir, Options{Settings: usual, Event: events.tell, Free: func(string) (int64, error) { return 1 << 40, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	write := func(at time.Time) error {
		var list []series.Sample
		for i := range 200 {
			list = append(list, sample("noise_"+strconv.Itoa(i), series.Gauge, float64(at.UnixNano()%7919*int64(i+3)%9973)/7))
		}
		return p.Write(at, list)
	}
	at, stored := noon, 0
	for ; ; at = at.Add(time.Second) {
		if err := write(at); err != nil {
			break
		}
		if stored++; stored > 10_000 {
			t.Fatal("the disk is never full")
		}
	}
	if list := events.take(); len(list) != 1 || !strings.Contains(list[0].Text, "no space left on device") {
		t.Fatalf("the events are %+v", list)
	}
	retry(p)
	if err := write(at); err == nil {
		t.Fatal("a sample is stored on a full disk")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=200m"); err != nil {
		t.Fatal(err)
	}
	retry(p)
	at = at.Add(time.Minute)
	if err := write(at); err != nil {
		t.Fatal(err)
	}
	if list := events.take(); len(list) != 1 || !strings.Contains(list[0].Text, "goes on") {
		t.Errorf("the events are %+v", list)
	}
	if got := len(read(t, p, "noise_7", noon, at)); got < stored-5 || got > stored+1 {
		t.Errorf("%d samples can be read, and %d were stored before the disk was full", got, stored)
	}
}
