package outcome

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Format is how outcomes are written.
type Format string

// The formats.
const (
	Auto  Format = ""      // by the name: .csv is CSV, everything else JSON lines
	JSONL Format = "jsonl" // the outcome of a record on each line
	CSV   Format = "csv"   // a header and rows
)

// Packing is how the output is compressed.
type Packing string

// The packings.
const (
	ByName Packing = ""     // .gz and .zst are, everything else is not
	None   Packing = "none" // not at all
	Gzip   Packing = "gzip"
	Zstd   Packing = "zstd"
)

// Shape is what an output looks like. A run goes on in the shape it was begun
// with.
type Shape struct {
	Format  Format   `json:"format"`
	Packing Packing  `json:"packing"`
	Ordered bool     `json:"ordered,omitempty"` // in the order of the input
	Columns []string `json:"columns,omitempty"` // of a CSV; nil: the fields of the first outcome
}

// settled is the shape with everything decided that the name decides.
func (s Shape) settled(path string) (Shape, error) {
	if len(s.Columns) == 0 {
		s.Columns = nil
	}
	name := strings.ToLower(filepath.Base(path))
	if s.Packing == ByName {
		s.Packing = None
		if strings.HasSuffix(name, ".gz") {
			s.Packing = Gzip
		} else if strings.HasSuffix(name, ".zst") {
			s.Packing = Zstd
		}
	}
	if s.Format == Auto {
		s.Format = JSONL
		if strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst"), ".csv") {
			s.Format = CSV
		}
	}
	switch s.Packing {
	case None, Gzip, Zstd:
	default:
		return s, fmt.Errorf("compression %q is not known: none, gzip or zstd", s.Packing)
	}
	switch s.Format {
	case JSONL, CSV:
		return s, nil
	}
	return s, fmt.Errorf("output format %q is not known: jsonl or csv", s.Format)
}

// difference says how a shape differs from that of the unfinished run.
func (s Shape) difference(before Shape) string {
	switch {
	case s.Format != before.Format:
		return fmt.Sprintf("its format is %s and not %s", before.Format, s.Format)
	case s.Packing != before.Packing:
		return fmt.Sprintf("its compression is %s and not %s", before.Packing, s.Packing)
	case s.Ordered != before.Ordered:
		return fmt.Sprintf("ordered is %t and not %t", before.Ordered, s.Ordered)
	case strings.Join(s.Columns, "\x00") != strings.Join(before.Columns, "\x00"):
		return "its columns are " + strings.Join(before.Columns, ", ")
	}
	return ""
}
