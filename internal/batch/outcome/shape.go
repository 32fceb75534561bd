package outcome

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Format is the format of an output.
type Format string

// The formats.
const (
	Auto  Format = ""      // by the name: .csv is CSV, everything else JSON lines
	JSONL Format = "jsonl" // the outcome of a record on each line
	CSV   Format = "csv"   // a header and rows

	// Numbered is JSONL with the index of the record before each outcome, as in
	// [3,{"id":7}]. Only a Pipe writes it.
	Numbered Format = "numbered"
)

// Packing is the compression of an output.
type Packing string

// The packings.
const (
	ByName Packing = ""     // .gz and .zst are compressed, everything else is not
	None   Packing = "none" // not at all
	Gzip   Packing = "gzip"
	Zstd   Packing = "zstd"
)

// Shape describes the form of an output. A run keeps the shape it began with.
type Shape struct {
	Format  Format   `json:"format"`
	Packing Packing  `json:"packing"`
	Ordered bool     `json:"ordered,omitempty"` // whether outcomes are in the order of the input
	Columns []string `json:"columns,omitempty"` // columns of a CSV; nil means the fields of the first outcome
}

// settled returns the shape with what the name of the output decides.
func (s Shape) settled(path string) (Shape, error) {
	if len(s.Columns) == 0 {
		s.Columns = nil
	}
	if path == "-" {
		return s, fmt.Errorf("%w: a run resumes from what it has written, so it cannot write to standard output: name a file", ErrShape)
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
	ending := filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst"))
	if slices.Contains(unpackable, ending) || s.Format == Auto && slices.Contains(unwritable, ending) {
		return s, fmt.Errorf("%w: berth cannot write %s; it writes .jsonl and .csv, and both with .gz or .zst appended", ErrShape, ending)
	}
	if s.Format == Auto {
		s.Format = JSONL
		if ending == ".csv" {
			s.Format = CSV
		}
	}
	switch s.Packing {
	case None, Gzip, Zstd:
	default:
		return s, fmt.Errorf("%w: unknown compression %q: use none, gzip or zstd", ErrShape, s.Packing)
	}
	if s.Format != JSONL && s.Format != CSV {
		return s, fmt.Errorf("%w: unknown format %q: use jsonl or csv", ErrShape, s.Format)
	}
	return s, s.checkColumns()
}

// These endings promise what berth does not write: other compressions, and, if
// the name decides the format, other formats.
var (
	unpackable = []string{".bz2", ".xz", ".lz4", ".zip", ".7z"}
	unwritable = []string{".tsv", ".parquet", ".arrow", ".feather", ".xlsx", ".xls", ".tar"}
)

func (s Shape) checkColumns() error {
	if s.Columns != nil && s.Format != CSV {
		return fmt.Errorf("%w: only a CSV has columns, and this is %s", ErrShape, s.Format)
	}
	for i, c := range s.Columns {
		if c == ErrorKey || c == moreKey {
			return fmt.Errorf("%w: every CSV has a column %s: leave it out", ErrShape, c)
		}
		if slices.Contains(s.Columns[:i], c) {
			return fmt.Errorf("%w: the column %s is named twice", ErrShape, c)
		}
	}
	return nil
}

// difference returns how a shape differs from that of the unfinished run.
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
