package journaltest

import (
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// testRandomHistories runs random histories with random crashes.
func testRandomHistories(t *testing.T, newWorld func() World) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, newWorld())
		chance := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "chance") }
		ok := func(err error) {
			if err != nil {
				t.Fatalf("unexpected: %v", err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				care := journal.Care{Durable: rapid.Bool().Draw(t, "durable"), Reserve: rapid.Bool().Draw(t, "reserve")}
				m.mustAppend(rapid.IntRange(1, 4).Draw(t, "entries"), rapid.IntRange(0, 120).Draw(t, "size"), care)
			},
			"compact": func(t *rapid.T) {
				from := int(m.j.Stats().SnapshotSeq)
				ok(m.compact(rapid.IntRange(from, len(m.history)).Draw(t, "up to")))
			},
			"reopen":    func(*rapid.T) { ok(m.close()); m.open(len(m.history)) },
			"kill":      func(*rapid.T) { m.kill() },
			"power cut": func(*rapid.T) { m.powerCut(chance) },
			"crash": func(t *rapid.T) {
				m.world.CrashAt(m.world.Ops()+rapid.IntRange(0, 9).Draw(t, "op"), rapid.IntRange(0, 200).Draw(t, "partial"))
				for m.append(1+chance(3), chance(90), journal.Care{Durable: chance(2) == 1}) == nil && (chance(4) != 0 || m.compact(len(m.history)) == nil) {
				}
				if chance(2) == 0 {
					m.kill()
				} else {
					m.powerCut(chance)
				}
			},
			"fault": func(t *rapid.T) {
				m.world.FailAt(m.world.Ops()+rapid.IntRange(0, 3).Draw(t, "op"), Fault{
					Err:     rapid.SampledFrom([]error{syscall.EIO, syscall.ENOSPC}).Draw(t, "error"),
					Partial: rapid.IntRange(0, 200).Draw(t, "partial"),
					Revert:  rapid.Bool().Draw(t, "revert"),
					Stay:    rapid.Bool().Draw(t, "stay"),
				})
				for range 4 {
					m.append(1, chance(90), journal.Care{Durable: chance(2) == 1})
				}
				m.world.Mend()
				m.mustAppend(1, 10, journal.Care{})
			},
			"full": func(t *rapid.T) {
				m.world.Fill()
				for range rapid.IntRange(1, 9).Draw(t, "groups") {
					m.append(1, chance(90), journal.Care{Durable: chance(2) == 1, Reserve: chance(2) == 1})
				}
				if chance(2) == 0 {
					m.kill()
				}
				m.world.Mend()
				m.mustAppend(1, 10, journal.Care{})
			},
		})
	})
}
