package drm_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/drm/drmtest"
)

var some = drm.Card{Driver: "amdgpu", PCI: "0000:03:00.0", Nodes: []string{"/dev/dri/card0", "/dev/dri/renderD128"}}

// opens gives a process the file of a card.
func opens(tree *drmtest.Tree, pid int, client int) {
	dir := fmt.Sprint("proc/", pid)
	tree.Write(dir+"/comm", fmt.Sprint("program", pid, "\n"))
	tree.Write(dir+"/fd/5", "-> /dev/dri/renderD128")
	tree.Write(dir+"/fdinfo/5", fmt.Sprintf("drm-driver: amdgpu\ndrm-pdev: 0000:03:00.0\ndrm-client-id: %d\ndrm-memory-vram: 1 MiB\n", client))
}

func pids(used []drm.Used) string {
	text := ""
	for _, u := range used {
		text += fmt.Sprint(u.PID, ":", u.Name, " ")
	}
	return text
}

func TestOpeners(t *testing.T) {
	tree := drmtest.Lay(t)
	now := begun
	opens(tree, 10, 1)
	tree.Write("proc/11/fd/0", "-> /dev/null")
	tree.Write("proc/self", "-> 10")
	o := tree.Root().Openers()
	look := func() string {
		used, _, _ := o.Of(&some, now)
		return pids(used)
	}
	if got := look(); got != "10:program10 " {
		t.Errorf("at first: %s", got)
	}
	opens(tree, 12, 2)
	if got := look(); got != "10:program10 " {
		t.Errorf("within the period: %s", got)
	}
	now = now.Add(time.Second)
	if got := look(); got != "10:program10 12:program12 " {
		t.Errorf("after the period: %s", got)
	}
	tree.Remove("proc/10")
	if got := look(); got != "12:program12 " {
		t.Errorf("a process that has just ended: %s", got)
	}
	tree.Write("proc/12/fdinfo/5", "drm-driver: amdgpu\ndrm-pdev: 0000:09:00.0\ndrm-client-id: 2\n")
	if got := look(); got != "" {
		t.Errorf("a file of another card: %s", got)
	}

	// A process that has been there for long opens its GPU late.
	for range 30 {
		now = now.Add(5 * time.Second)
		look()
	}
	before, _ := os.Stat(tree.Path("proc/11"))
	opens(tree, 11, 3)
	_ = os.Chtimes(tree.Path("proc/11"), before.ModTime(), before.ModTime())
	for range 6 {
		now = now.Add(5 * time.Second)
		look()
	}
	if got := look(); got != "11:program11 " {
		t.Errorf("a process that settled: %s", got)
	}
}

// Several processes share an open file; it counts once, for the first.
func TestSharedClients(t *testing.T) {
	tree := drmtest.Lay(t)
	opens(tree, 30, 7)
	opens(tree, 20, 7)
	opens(tree, 25, 8)
	used, complete, _ := tree.Root().Openers().Of(&some, time.Now())
	if got := pids(used); got != "20:program20 25:program25 " || !complete {
		t.Errorf("%s, complete %v", got, complete)
	}
}

// The open files of a process are read in slices, each of them once.
func TestManyFilesAreReadInSlices(t *testing.T) {
	var files []*os.File
	for range 1500 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	tree := drmtest.Lay(t)
	for fd := range 1500 {
		tree.Write(fmt.Sprint("proc/1/fd/", fd), "-> /dev/dri/renderD128")
	}
	for dir, want := range map[string]int{"/proc/self": 0, tree.Path("proc/1"): 1500} {
		parts, found, err := drm.OpenFiles(dir)
		sum := 0
		for _, n := range parts {
			if sum += n; n > 400 {
				t.Errorf("%s: %d files at once", dir, n)
			}
		}
		slices.Sort(found)
		if len(slices.Compact(found)) != want || sum < len(files) || err != nil {
			t.Errorf("%s: %d of cards, %d in all, %v", dir, len(found), sum, err)
		}
	}
}

// However many files some processes have open, the others are seen at once, and what those
// processes have open is seen in time, and stays seen.
func TestManyFilesHideNothing(t *testing.T) {
	tree := drmtest.Lay(t)
	for pid := 100; pid < 104; pid++ {
		for fd := range 1000 {
			tree.Write(fmt.Sprint("proc/", pid, "/fd/", 1000+fd), "-> /dev/null")
		}
	}
	opens(tree, 103, 1)
	now := begun
	o := tree.Root().Openers()
	look := func() string {
		now = now.Add(time.Second)
		used, _, _ := o.Of(&some, now)
		return pids(used)
	}
	look()
	opens(tree, 900, 2)
	if got := look(); !strings.Contains(got, "900:program900 ") {
		t.Errorf("a new process: %s", got)
	}
	for range 10 {
		look()
	}
	for range 35 {
		if got := look(); got != "103:program103 900:program900 " {
			t.Fatalf("after some looks: %s", got)
		}
	}
}

// However many processes come and go, those that were there before are looked at.
func TestManyNewProcessesHideNothing(t *testing.T) {
	const many, each = 26, 340
	tree := drmtest.Lay(t)
	tree.Write("proc/50/fd/0", "-> /dev/null")
	now := begun
	o := tree.Root().Openers()
	look := func() string {
		used, _, _ := o.Of(&some, now)
		return pids(used)
	}
	look()
	opens(tree, 50, 1)
	for i := range many {
		for fd := range each {
			tree.Write(fmt.Sprintf("proc/%d/fd/%d", 1000+i, 1000+fd), "-> /dev/null")
		}
	}
	for next := 1000; next < 4000; next += 1000 {
		now = now.Add(time.Second)
		look()
		for i := range many {
			if err := os.Rename(tree.Path(fmt.Sprint("proc/", next+i)), tree.Path(fmt.Sprint("proc/", next+1000+i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := look(); got != "50:program50 " {
		t.Errorf("it has found %q", got)
	}
}

// While berth can open no file, what is known stays.
func TestNoFileCanBeOpened(t *testing.T) {
	tree := drmtest.Lay(t)
	opens(tree, 10, 1)
	now := begun
	o := tree.Root().Openers()
	look := func() string {
		now = now.Add(10 * time.Second)
		used, complete, _ := o.Of(&some, now)
		return fmt.Sprint(pids(used), complete)
	}
	before := look()
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	during := look()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if after := look(); before != "10:program10 true" || during != "10:program10 false" || after != before {
		t.Errorf("before %s, during %s, after %s", before, during, after)
	}
}

// What the driver says is asked for in turn: many copies of a file keep nobody from being
// read each time, and everything is read in the end.
func TestManyClientsAreReadInTurn(t *testing.T) {
	tree := drmtest.Lay(t)
	client := func(pid, fd, id, mib int) {
		tree.Write(fmt.Sprintf("proc/%d/fd/%d", pid, fd), "-> /dev/dri/renderD128")
		tree.Write(fmt.Sprintf("proc/%d/fdinfo/%d", pid, fd), fmt.Sprintf("drm-driver: amdgpu\ndrm-client-id: %d\ndrm-memory-vram: %d MiB\n", id, mib))
	}
	const many = 10
	for pid := range many {
		for fd := range drm.MostFiles {
			client(100+pid, fd, pid*1000+fd, 1)
		}
	}
	client(7, 5, 1e6, 1)
	now := begun
	o := tree.Root().Openers()
	memory := func() (single, all uint64) {
		now = now.Add(time.Second)
		used, _, _ := o.Of(&some, now)
		for _, u := range used {
			for _, c := range u.Clients {
				all += c.Memory >> 20
				if u.PID == 7 {
					single += c.Memory >> 20
				}
			}
		}
		return single, all
	}
	if _, all := memory(); all > drm.MostReads {
		t.Errorf("one reading has asked about %d files", all)
	}
	for i := range 10 {
		client(7, 5, 1e6, 10+i)
		if single, _ := memory(); single != uint64(10+i) {
			t.Errorf("the one file of a process has %d MiB", single)
		}
	}
	if _, all := memory(); all != many*drm.MostFiles+19 {
		t.Errorf("all have %d MiB", all)
	}
}

func TestWithoutProc(t *testing.T) {
	used, complete, _ := drmtest.Lay(t).Root().Openers().Of(&some, time.Now())
	if len(used) > 0 || complete {
		t.Errorf("%v, complete %v", used, complete)
	}
}

// BenchmarkOpeners is a machine with 500 processes of 20 open files, of which two
// use the card: the first reading, one a second, and one more in the same second.
func BenchmarkOpeners(b *testing.B) {
	tree := drmtest.Lay(b)
	for pid := range 500 {
		for fd := range 20 {
			tree.Write(fmt.Sprintf("proc/%d/fd/%d", 1000+pid, 100+fd), "-> /dev/null")
		}
	}
	opens(tree, 1, 1)
	opens(tree, 2, 2)
	for name, step := range map[string]time.Duration{"every second": time.Second, "again": 0} {
		b.Run(name, func(b *testing.B) {
			now := begun
			o := tree.Root().Openers()
			for range 120 { // settle
				o.Of(&some, now)
				now = now.Add(time.Second)
			}
			for b.Loop() {
				now = now.Add(step)
				o.Of(&some, now)
			}
		})
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			tree.Root().Openers().Of(&some, time.Now())
		}
	})
	b.Run("this machine", func(b *testing.B) {
		now := begun
		o := drm.Root("/").Openers()
		for b.Loop() {
			now = now.Add(time.Second)
			o.Of(&some, now)
		}
	})
}
