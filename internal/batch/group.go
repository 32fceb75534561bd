package batch

import (
	"slices"

	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// group is a set of records that one worker has, or that wait as suspects to be tried by
// themselves.
type group struct {
	id       int64
	records  []record.Record
	weight   float64
	suspect  bool     // part of a batch that failed, not to be mixed with others
	failures int      // failures of a single record
	tried    []string // UUIDs of the GPUs where it failed
	probe    bool     // the record has an outcome already, and only tests the worker
}

// parts cuts a group that failed on a GPU into smaller ones.
func (g *group) parts(cause chunk.Cause, gpu string) []*group {
	var out []*group
	from := 0
	for _, end := range chunk.Parts(cause, len(g.records)) {
		part := &group{records: g.records[from:end:end], suspect: true, tried: slices.Clone(g.tried)}
		part.triedOn(gpu)
		for i := range part.records {
			part.weight += part.records[i].Weight
		}
		out = append(out, part)
		from = end
	}
	return out
}

func (g *group) triedOn(gpu string) {
	if !slices.Contains(g.tried, gpu) {
		g.tried = append(g.tried, gpu)
	}
}

// overhead is the memory that a record takes in addition to its bytes.
const overhead = 128

func size(r *record.Record) int { return len(r.Data) + overhead }
