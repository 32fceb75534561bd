package past

import (
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
)

// surplus returns the function that chooses which blocks of a store go. It counts
// recorded time, not calendar time, so neither a clock that jumps years ahead nor a
// machine that was off makes any block too old.
func (p *Past) surplus(s *store) tsdb.BlocksToDeleteFunc {
	return func(blocks []*tsdb.Block) map[ulid.ULID]struct{} {
		limits := p.limits.Load()
		list := make([]stretch, len(blocks))
		for i, b := range blocks {
			m := b.Meta()
			list[i] = stretch{id: m.ULID, from: m.MinTime, to: m.MaxTime, size: b.Size(), replaced: m.Compaction.Deletable}
		}
		room, keep := int64(limits.Size)<<20, limits.Long
		if s.kind == recentKind {
			room, keep = room/2, limits.Recent // the long store gets the other half, and the rest of this one
		} else {
			room -= p.counted.recentBytes.Load() + p.counted.otherBytes.Load()
		}
		if s.db != nil {
			room -= s.db.Head().Size()
		}
		return beyond(list, keep.Milliseconds(), s.largest.Milliseconds(), room)
	}
}

// stretch is the time that a block covers.
type stretch struct {
	id       ulid.ULID
	from, to int64 // in milliseconds; to is not included
	size     int64
	replaced bool // by a larger block
}

// beyond returns the surplus blocks: those for which newer blocks already hold as much
// time as is kept, or fill the room. No block counts for more time than blocks are made
// for: one that was made while the clock jumped seems to cover years.
func beyond(list []stretch, keep, most, room int64) map[ulid.ULID]struct{} {
	gone := map[ulid.ULID]struct{}{}
	slices.SortFunc(list, func(a, b stretch) int { return int(min(max(b.to-a.to, -1), 1)) })
	var held, size int64
	earliest := int64(1<<63 - 1) // start of the newer blocks
	for i, b := range list {
		if b.replaced {
			gone[b.id] = struct{}{}
			continue
		}
		if size += b.size; held >= keep || size > room && i > 0 {
			gone[b.id] = struct{}{}
			size = max(size, room+1) // all older blocks go too
			continue
		}
		if b.from < earliest {
			held += min(min(b.to, earliest)-b.from, most)
			earliest = b.from
		}
	}
	return gone
}
