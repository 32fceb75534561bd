// Package record reads records: JSON lines, CSV, plain lines, or files that are
// records themselves, from files, patterns of files and streams, plain or
// compressed.
//
// A record that cannot be read is a record all the same, with an error: none is
// dropped, and the numbers of the others do not change.
package record

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// Record is one record of the input.
type Record struct {
	Index  int64   // its place in the whole input, from 0
	Data   []byte  // its JSON, on one line
	Weight float64 // known or presumed cost, in any unit; 0 if not known
	File   string  // the file that the record is in, or is
	Line   int64   // line in the file, from 1; 0 if the record is the file

	// Error says why no worker can take the record, and where it is in the
	// input. Data is then what could be read of it, as a string.
	Error string
}

// Place returns the place of a record in the input, for people.
func (r *Record) Place() string {
	if r.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s line %d", r.File, r.Line)
}

// Format is the form of the records in an input.
type Format string

// The formats.
const (
	Auto  Format = ""      // by the name: .jsonl and .ndjson, .csv and .tsv, .txt; another pattern means files
	JSONL Format = "jsonl" // a JSON value on each line; empty lines are skipped
	CSV   Format = "csv"   // a header and rows; a record is an object of strings
	Lines Format = "lines" // a record is the text of a line, as a JSON string
	Files Format = "files" // a record is a file: {"path": …, "size": …}
)

// Cost defines the weight of a record.
type Cost struct {
	By    Basis
	Field string // for ByField
}

// Basis is the source of a weight.
type Basis string

// The bases.
const (
	BySize    Basis = ""      // the size of the record, or of the file it names; the run learns what that means
	ByField   Basis = "field" // a number in the record
	ByNothing Basis = "none"  // no cost: records keep their order
)

// of returns the weight of a record, given its size in bytes.
func (c Cost) of(data []byte, size int64) float64 {
	switch c.By {
	case ByNothing:
		return 0
	case ByField:
		w, err := strconv.ParseFloat(rawjson.Text(rawjson.Field(data, c.Field)), 64)
		if err != nil || math.IsNaN(w) || math.IsInf(w, 0) || w < 0 {
			return 0
		}
		return w
	}
	return float64(size)
}

// errorKey is the field that a failed record carries. berth removes it from the records
// it reads, so that failed ones can be run again unchanged: a worker that passes on
// unknown fields would make them fail again.
const errorKey = "_error"

// withoutError returns a record without errorKey.
func withoutError(data []byte) []byte {
	if !bytes.Contains(data, []byte(`"`+errorKey+`"`)) || rawjson.Field(data, errorKey) == nil {
		return data
	}
	out := []byte{'{'}
	for key, value := range rawjson.Fields(data) {
		if rawjson.Is(key, errorKey) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}')
}

// fault describes what is wrong with a single record. spoil adds its place.
type fault struct {
	raw  []byte // what was found
	text string
}

func (f *fault) Error() string { return f.text }

// spoil turns a record into one with an error, and with what was found of it.
func (f *fault) spoil(r *Record) {
	r.Data, r.Error = rawjson.AppendQuote(nil, f.raw), fmt.Sprintf("%s: %s", r.Place(), f.text)
}
