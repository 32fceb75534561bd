package kinship

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// table has processes whose facts can be changed, and counts what is read.
type table struct {
	facts        Facts
	lines, reads int
}

func (t *table) Ancestry(p ID) []ID { t.lines++; return []ID{p, id(t.lines)} }
func (t *table) Facts(ID) Facts     { t.reads++; return t.facts }

func TestMemory(t *testing.T) {
	var memory Memory
	now := time.Unix(1e9, 0)
	world := &table{}
	first := memory.See(id(10), now, world)
	if again := memory.See(id(10), now.Add(time.Hour), world); world.lines != 1 || again.Ancestry[1] != first.Ancestry[1] {
		t.Errorf("its line was read %d times, and is %v after %v", world.lines, again, first)
	}
	recycled := ID{PID: 10, Start: 999}
	if got := memory.See(recycled, now.Add(time.Hour), world); got.ID() != recycled || memory.Len() != 1 {
		t.Errorf("another process with the pid is %v, and %d are known", got, memory.Len())
	}
	memory.Weed(now.Add(time.Hour))
	memory.Weed(now.Add(time.Hour + forgetAfter - 1)) // too soon
	if memory.Len() != 1 {
		t.Error("it was forgotten too soon")
	}
	memory.Weed(now.Add(time.Hour + 2*forgetAfter))
	if memory.Len() != 0 {
		t.Error("it was not forgotten")
	}
}

// crowded is a table that lets others see processes while it reads one.
type crowded struct {
	table
	meanwhile func()
}

func (c *crowded) Facts(ID) Facts {
	if f := c.meanwhile; f != nil {
		c.meanwhile = nil
		f()
	}
	return c.facts
}

// Others may see processes while one is read, and one that could not be read is asked
// again at once.
func TestMemoryWhileATableReads(t *testing.T) {
	var memory Memory
	now := time.Unix(1e9, 0)
	world := &crowded{table: table{facts: Facts{UID: access.KnownUID(7)}}}
	world.meanwhile = func() {
		memory.See(id(10), now, world)
		memory.See(id(11), now, world)
	}
	if got := memory.See(id(10), now, world); !got.runsAs(7) || memory.Len() != 2 {
		t.Errorf("it is %+v, and %d are known", got, memory.Len())
	}
	later := &table{facts: Facts{UID: access.KnownUID(7), Unread: true}}
	memory.See(id(12), now, later)
	later.facts = Facts{UID: access.KnownUID(7), Origin: Origin{"a", 5, 7}}
	if got := memory.See(id(12), now, later); got.Origin.Lease != "a" {
		t.Errorf("after it was read it is %+v", got)
	}
}

// A process may run another program, become another user or be moved. What it
// was started under stays.
func TestMemoryReadsFactsAgain(t *testing.T) {
	var memory Memory
	now := time.Unix(1e9, 0)
	world := &table{facts: Facts{Origin: Origin{"a", 5, 7}, UID: access.KnownUID(7), Programs: []string{"sh"}}}
	memory.See(id(10), now, world)
	world.facts = Facts{UID: access.KnownUID(8), Programs: []string{"train"}, Cgroups: []string{"/x.service"}}
	if got := memory.See(id(10), now.Add(freshFor-1), world); world.reads != 1 || got.Programs[0] != "sh" {
		t.Errorf("too soon it was read %d times, and is %+v", world.reads, got)
	}
	got := memory.See(id(10), now.Add(freshFor), world)
	if got.Programs[0] != "train" || got.Origin.Lease != "a" || !got.runsAs(8) || len(got.Cgroups) != 1 {
		t.Errorf("later it is %+v", got)
	}
	world.facts = Facts{} // it has just ended
	if got := memory.See(id(10), now.Add(2*freshFor), world); got.Programs[0] != "train" || !got.runsAs(8) {
		t.Errorf("after its end it is %+v", got)
	}
	memory.See(id(11), now, world)
	world.facts = Facts{UID: access.KnownUID(7), Origin: Origin{"a", 5, 7}} // an exec brought it
	if got := memory.See(id(11), now.Add(freshFor), world); got.Origin.Lease != "a" {
		t.Errorf("an origin that came later is %+v", got.Origin)
	}
}
