package top

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/process"
)

// A process of this machine is known by its number and its name; how much it computes is
// known from the second look on.
func TestPrograms(t *testing.T) {
	p, table := &programs{from: process.Proc()}, process.Proc()
	self, parent := os.Getpid(), os.Getppid()
	p.watch(map[int]string{self: table.Name(self), parent: table.Name(parent) + " of another namespace", 1 << 30: "gone", 5000001: "simulated"})
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	first := p.look(now)
	if len(first) != 1 || first[self].CPU.Known() || first[self].Host.Or(0) <= 0 || !strings.Contains(first[self].Command, os.Args[0]) {
		t.Errorf("%+v", first)
	}
	second := p.look(now.Add(time.Second))
	if used, known := second[self].CPU.Get(); !known || used < 0 {
		t.Errorf("%+v", second)
	}
	p.watch(nil)
	if rest := p.look(now.Add(2 * time.Second)); len(rest) != 0 {
		t.Errorf("%+v", rest)
	}
}
