package outcome

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strconv"
)

// The journal is a text file. Each line is a checksum and a JSON object. The first line
// has the header, each following one a commit; then one says how many records there are,
// and the last line of a finished run that it is complete. If a line is not whole or cannot
// be true, it and all lines after it count as never written: a run that forgets a commit
// only does its records again, so no damage to this file can make an output wrong.

// entry is a line. Exactly one of its fields is set.
type entry struct {
	Header   *header `json:"header,omitempty"`
	Commit   *commit `json:"commit,omitempty"`
	Total    *int64  `json:"total,omitempty"` // records of the input, all of which have outcomes
	Complete bool    `json:"complete,omitempty"`
}

// journalVersion increases when an older berth can no longer read the file.
const journalVersion = 1

// header describes how a run began. The run has to continue in the same way.
type header struct {
	Version int             `json:"berth_batch"`
	Input   json.RawMessage `json:"input"` // fingerprint that only the caller understands
	Shape
	Command []string `json:"command,omitempty"` // of its workers; empty: an older berth did not write it
	Replace bool     `json:"replace,omitempty"` // the run replaces an existing output at the end
}

// commit describes a group of outcomes that is in the file.
type commit struct {
	Bytes  int64 `json:"bytes"`            // length of the file after the commit
	Failed int64 `json:"failed,omitempty"` // records that failed
	// Stretches are triples of numbers: see stretch.
	Stretches []int64 `json:"frames"`

	// Columns are those of a CSV output, in the commit that settled them. They
	// may be empty.
	Columns []string `json:"columns,omitzero"`
}

// stretch is a sequence of records that are neighbours in the input and in the file: the
// first, their count, and their bytes before compression.
type stretch struct{ first, count, bytes int64 }

// each yields the stretches of the commit in the order of the file.
func (c *commit) each(yield func(stretch) bool) {
	for i := 0; i+2 < len(c.Stretches); i += 3 {
		if !yield(stretch{c.Stretches[i], c.Stretches[i+1], c.Stretches[i+2]}) {
			return
		}
	}
}

// possible reports whether Commit could have written this. A stretch of several records
// has at least a byte for each of them and a limited length, so that a number in a
// damaged file causes no endless work.
func (c *commit) possible() bool {
	records := int64(0)
	for s := range c.each {
		if s.first < 0 || s.count < 1 || s.bytes < s.count || s.count > 1 && s.bytes > stretchBytes || s.first > math.MaxInt64-s.count {
			return false
		}
		records += s.count
	}
	return records > 0 && len(c.Stretches)%3 == 0 && c.Bytes >= 0 && c.Failed >= 0 && c.Failed <= records
}

// size returns the bytes of the outcomes before compression.
func (c *commit) size() (sum int64) {
	for s := range c.each {
		if sum += s.bytes; sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journal is the open and locked file.
type journal struct {
	file *os.File
	end  int64 // where the next line goes
}

// append writes a line and waits for the disk.
func (j *journal) append(e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
	if _, err := j.file.WriteAt(line, j.end); err != nil {
		return writeError("write", j.file.Name(), err)
	}
	if err := j.file.Sync(); err != nil {
		return writeError("sync", j.file.Name(), err)
	}
	j.end += int64(len(line))
	return nil
}

// errStop ends a replay early. The line that caused it is cut off with the
// rest.
var errStop = errors.New("stop")

// replay passes every whole line to each, from the beginning. It returns where the last
// one ends.
func (j *journal) replay(each func(entry) error) (end int64, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(j.file, 0, 1<<62), 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return end, err
		}
		e, ok := parseLine(line)
		if !ok {
			return end, nil
		}
		if err := each(e); err != nil {
			if errors.Is(err, errStop) {
				err = nil
			}
			return end, err
		}
		end += int64(len(line))
	}
}

func parseLine(line []byte) (entry, bool) {
	sum, text, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !ok || err != nil || len(sum) != 8 || crc32.Checksum(text, castagnoli) != uint32(want) {
		return entry{}, false
	}
	var e entry
	if json.Unmarshal(text, &e) != nil || e.Commit != nil && !e.Commit.possible() {
		return entry{}, false
	}
	return e, true
}

// cut drops everything after end, so that no whole line follows a torn one.
func (j *journal) cut(end int64) error {
	j.end = end
	return writeError("shorten", j.file.Name(), j.file.Truncate(end))
}
