package batch

import "github.com/berth-gpu/berth/internal/batch/record"

// intake counts how much of the input was read. The run's lock guards it.
type intake struct {
	expect int64 // records of the input according to the caller; 0 if unknown
	eof    bool
	total  int64 // records of the input, once eof
	seen   int64 // records of the input that were read or skipped
	from   int64 // bytes of the input before the first wanted record
	count  int64 // wanted records, and their weight
	weight float64
}

// saw counts a record that was read.
func (i *intake) saw(rec record.Record, source *record.Source) {
	if i.count == 0 {
		i.from, _ = source.Position()
	}
	i.seen = rec.Index + 1
}

// end notes that there are no more records.
func (i *intake) end(total int64) { i.eof, i.total, i.seen = true, total, total }

// rest returns how much of the input is not read yet, as a multiple of what was read. It
// returns 0 if nothing is left or the amount is unknown.
func (i *intake) rest(source *record.Source) float64 {
	read, total := source.Position()
	if !i.eof && i.count > 0 && total == 0 && i.expect > i.seen {
		return float64(i.expect-i.seen) / float64(i.count)
	}
	if i.eof || i.count == 0 || read <= i.from || total <= read {
		return 0
	}
	return float64(total-read) / float64(read-i.from)
}

// records returns the number of records in the input. The number is exact at the end of
// the input; before, it is an estimate from how much was read, or what the caller
// expects.
func (i *intake) records(source *record.Source) (n int64, known bool) {
	if i.eof {
		return i.total, true
	}
	if read, total := source.Position(); read > 0 && total > 0 && i.seen > 0 {
		return int64(float64(i.seen) * max(1, float64(total)/float64(read))), true
	}
	if i.expect > 0 {
		return max(i.expect, i.seen), true
	}
	return 0, false
}
