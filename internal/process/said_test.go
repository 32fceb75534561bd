package process

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A process whose environment cannot be read costs a moment, once, and one goroutine. What
// it says later counts.
func TestSilentProcess(t *testing.T) {
	table := written(t, "Uid:\t7\t7\t7\t7\n")
	id, err := table.Identify(7)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(table.file(7, "comm"), []byte("train\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(table.file(7, "environ"), 0o600); err != nil { // to open it waits for a writer
		t.Skip(err)
	}
	from := source{table.root, id}
	for range 3 {
		facts, said := table.Inspect(id)
		if !facts.Unread || facts.Origin.Lease != "" || !facts.UID.Known() || !slices.Equal(facts.Programs, []string{"train"}) || said.environ != nil {
			t.Errorf("it is %+v, and said %q", facts, said.environ)
		}
	}
	reading.mu.Lock()
	r, late := reading.by[from], reading.late
	reading.mu.Unlock()
	if r == nil || !r.late || late != 1 {
		t.Fatalf("its reader is %+v, and %d are late", r, late)
	}
	speak := func() {
		t.Helper()
		if err := os.WriteFile(table.file(7, "environ"), []byte("BERTH_LEASE=a\x00BERTH_FENCE=5\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	speak()
	<-r.done
	if facts := table.Facts(id); facts.Unread || facts.Origin.Lease != "a" {
		t.Errorf("later it is %+v", facts)
	}
	speak()                                                  // to the reader that was started when it was asked
	if err := os.Remove(table.file(7, "stat")); err != nil { // it has ended
		t.Fatal(err)
	}
	for late > 0 {
		runtime.Gosched()
		reading.mu.Lock()
		late = reading.late
		reading.mu.Unlock()
	}
	_, _ = reading.giveUp(&reader{done: make(chan struct{})})
	reading.mu.Lock()
	defer reading.mu.Unlock()
	reading.late--
	if reading.by[from] != nil {
		t.Error("its reader is kept after its end")
	}
}
