package drm_test

import (
	"fmt"
	"os"
	"testing"
	"time"

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
		used, _ := o.Of(&some, now)
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
	used, complete := tree.Root().Openers().Of(&some, time.Now())
	if got := pids(used); got != "20:program20 25:program25 " || !complete {
		t.Errorf("%s, complete %v", got, complete)
	}
}

func TestWithoutProc(t *testing.T) {
	used, complete := drmtest.Lay(t).Root().Openers().Of(&some, time.Now())
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
