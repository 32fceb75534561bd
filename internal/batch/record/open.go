package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// Spec describes an input and how to read it.
type Spec struct {
	Paths    []string  // files, and patterns of files as in filepath.Match, with ** for any folders
	Stream   io.Reader // read instead of Paths
	End      string    // line that ends the Stream, which may stay open; empty means that only its end does
	Format   Format
	Cost     Cost
	MaxBytes int    // longest record; longer ones become errors; 0 means 16 MiB
	Skip     string // folder whose files no pattern matches

	KeepError bool // leave the field _error in JSON lines

	// Done reports whether a record is not wanted any more; Next skips it. Nil means that
	// all are wanted.
	Done func(index int64) bool
}

// ErrFormat means that the format of the input is unknown, or cannot be used
// for it.
var ErrFormat = errors.New("the format of the input is not clear")

const defaultMaxBytes = 16 << 20

// Source is an open input. One goroutine reads it; any goroutine may call
// Position.
type Source struct {
	spec    Spec
	format  Format
	files   []file
	stream  bool // whether at least a part cannot be read twice
	total   int64
	read    atomic.Int64 // bytes taken from the files
	next    int          // the file to open next
	current decoder
	closer  io.Closer
	name    string // name of the current file
	index   int64  // index of the next record
}

type file struct {
	path string
	stat fs.FileInfo
}

// decoder returns the next record of a stream as JSON, valid until the next
// call, its line, and its size for the weight. With skip it may leave out the
// data. A *fault is about this record alone.
type decoder func(skip bool) (data []byte, line, size int64, err error)

// Open finds the files and works out the format. It reads no records.
func Open(spec Spec) (*Source, error) {
	if spec.MaxBytes <= 0 {
		spec.MaxBytes = defaultMaxBytes
	}
	if spec.Cost.By == ByField && spec.Cost.Field == "" {
		return nil, errors.New("cost by field: name the field")
	}
	s := &Source{spec: spec, format: spec.Format, stream: spec.Stream != nil}
	switch {
	case !s.stream:
		if err := s.find(); err != nil {
			return nil, err
		}
	case s.format == Files:
		return nil, fmt.Errorf("%w: a stream holds no files; give a pattern of files, or another format", ErrFormat)
	case s.format == Auto:
		s.format = JSONL
	}
	return s, s.settleFormat()
}

// find expands the patterns. The files are in the order of the patterns, and
// alphabetical within each.
func (s *Source) find() error {
	if len(s.spec.Paths) == 0 {
		return errors.New("no input: name a file, or a pattern of files")
	}
	seen := map[string]bool{}
	for _, pattern := range s.spec.Paths {
		paths := []string{pattern}
		if isPattern(pattern) {
			var err error
			if paths, err = glob(pattern); err != nil {
				return fmt.Errorf("input %q: %w", pattern, err)
			}
			paths = slices.DeleteFunc(paths, s.skips)
			if len(paths) == 0 {
				return fmt.Errorf("input %q: no file matches", pattern)
			}
		}
		for _, path := range paths {
			if seen[path] {
				continue
			}
			seen[path] = true
			stat, err := os.Stat(path)
			if link, lerr := os.Readlink(path); errors.Is(err, fs.ErrNotExist) && lerr == nil {
				return fmt.Errorf("input %s is a link to %s, and that is not there: remove the link, or give a pattern without it", path, link)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("input: there is no such file: %s. Name a file, a pattern in quotes such as 'in/*.tif', or - for standard input", path)
			}
			if err != nil {
				return fmt.Errorf("input: %w", err)
			}
			if stat.IsDir() {
				if isPattern(pattern) {
					continue
				}
				return fmt.Errorf("input %s is a directory: give a pattern, such as %s", path, filepath.Join(path, "*"))
			}
			s.stream = s.stream || !stat.Mode().IsRegular()
			s.total += stat.Size()
			s.files = append(s.files, file{path, stat})
		}
	}
	return nil
}

// skips reports whether a file that was found is in the folder to skip.
func (s *Source) skips(path string) bool {
	dir := filepath.Dir(path)
	if s.spec.Skip == "" || filepath.Base(dir) != filepath.Base(s.spec.Skip) {
		return false
	}
	found, err1 := os.Stat(dir)
	skip, err2 := os.Stat(s.spec.Skip)
	return err1 == nil && err2 == nil && os.SameFile(found, skip)
}

// Reads reports whether a file is among the inputs, or would be if it existed.
func (s *Source) Reads(path string) bool {
	stat, err := os.Stat(path)
	for _, f := range s.files {
		if f.path == path || err == nil && os.SameFile(f.stat, stat) {
			return true
		}
	}
	for _, pattern := range s.spec.Paths {
		whole, err1 := filepath.Abs(pattern)
		file, err2 := filepath.Abs(path)
		if err1 == nil && err2 == nil && isPattern(pattern) && matches(whole, file) {
			return true
		}
	}
	return false
}

// isPattern reports whether a path is a pattern. The name of an existing file is not,
// whatever characters it has.
func isPattern(path string) bool {
	if !strings.ContainsAny(path, `*?[`) {
		return false
	}
	_, err := os.Lstat(path)
	return err != nil
}

func (s *Source) settleFormat() error {
	switch s.format {
	case JSONL, CSV, Lines, Files:
		return nil
	case Auto:
	default:
		return fmt.Errorf("%w: %q is not one of jsonl, csv, lines and files", ErrFormat, s.format)
	}
	for _, pattern := range s.spec.Paths {
		f := formatOf(pattern)
		if f == Auto && isPattern(pattern) {
			f = Files
		}
		if f == Auto {
			return fmt.Errorf("%w: the name %s does not say it", ErrFormat, pattern)
		}
		if s.format != Auto && s.format != f {
			return fmt.Errorf("%w: some inputs are %s and some are %s, and a run reads one format", ErrFormat, s.format, f)
		}
		s.format = f
	}
	return nil
}

// formatOf returns the format that a name stands for, without the ending of a
// compressed file.
func formatOf(path string) Format {
	name := strings.ToLower(filepath.Base(path))
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	switch filepath.Ext(name) {
	case ".jsonl", ".ndjson":
		return JSONL
	case ".csv", ".tsv":
		return CSV
	case ".txt":
		return Lines
	}
	return Auto
}

// Format returns the format of the input.
func (s *Source) Format() Format { return s.format }

// IsStream reports whether the input, or a part of it, can be read only once.
func (s *Source) IsStream() bool { return s.stream }

// Position returns the number of bytes read, and the total, or 0 if that is unknown.
func (s *Source) Position() (read, total int64) { return s.read.Load(), s.total }
