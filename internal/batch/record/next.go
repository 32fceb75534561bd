package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// Next returns the next wanted record, or io.EOF. The caller may keep its data. Other
// errors are about the input as a whole, and reading cannot continue.
func (s *Source) Next() (Record, error) {
	for {
		if s.format == Files {
			return s.nextFile()
		}
		if s.current == nil {
			if err := s.advance(); err != nil {
				return Record{}, err
			}
		}
		skip := s.spec.Done != nil && s.spec.Done(s.index)
		data, line, size, err := s.current(skip)
		if errors.Is(err, io.EOF) {
			s.current = nil
			if err := s.Close(); err != nil {
				return Record{}, fmt.Errorf("read %s: %w", s.name, err)
			}
			continue
		}
		bad, isFault := err.(*fault)
		if err != nil && !isFault {
			return Record{}, fmt.Errorf("read %s: line %d: %w", s.name, line, err)
		}
		r := Record{Index: s.index, File: s.name, Line: line}
		s.index++
		switch {
		case skip:
			continue
		case isFault:
			bad.spoil(&r)
		default:
			r.Data, r.Weight = slices.Clone(data), s.spec.Cost.of(data, size)
		}
		return r, nil
	}
}

// Count returns how many records were passed so far. After io.EOF, that is the number of
// records in the input.
func (s *Source) Count() int64 { return s.index }

// nextFile returns the record of the next file.
func (s *Source) nextFile() (Record, error) {
	for ; s.next < len(s.files); s.next++ {
		f := s.files[s.next]
		index := s.index
		s.index++
		s.read.Add(f.stat.Size())
		if s.spec.Done != nil && s.spec.Done(index) {
			continue
		}
		s.next++
		if !utf8.ValidString(f.path) {
			r := Record{Index: index, File: strconv.Quote(f.path)}
			bad := fault{[]byte(f.path), "the name of the file is not UTF-8 text, so a message to a worker cannot hold it: rename the file"}
			bad.spoil(&r)
			return r, nil
		}
		data := append([]byte(`{"path":`), rawjson.Quote(f.path)...)
		data = fmt.Appendf(data, `,"size":%d}`, f.stat.Size())
		return Record{Index: index, Data: data, Weight: s.spec.Cost.of(data, f.stat.Size()), File: f.path}, nil
	}
	return Record{}, io.EOF
}

// advance opens the next file or stream.
func (s *Source) advance() error {
	if s.spec.Stream != nil {
		if s.next > 0 {
			return io.EOF
		}
		s.next++
		s.name = "standard input"
		return s.begin(s.spec.Stream, ',')
	}
	if s.next >= len(s.files) {
		return io.EOF
	}
	path := s.files[s.next].path
	s.next++
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	s.name, s.closer = path, f
	return s.begin(f, commaOf(path))
}

// commaOf returns what separates the columns of a CSV file, by its name.
func commaOf(path string) byte {
	if strings.Contains(strings.ToLower(filepath.Base(path)), ".tsv") {
		return '\t'
	}
	return ','
}

// Close closes the file that is open.
func (s *Source) Close() error {
	if s.closer == nil {
		return nil
	}
	c := s.closer
	s.closer = nil
	return c.Close()
}

// begin unpacks compressed data, whatever the name of the file, and starts the
// decoder.
func (s *Source) begin(r io.Reader, comma byte) error {
	plain, err := unpack(bufio.NewReaderSize(&counting{r, s}, 256<<10))
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	lines, err := newLines(plain, s.spec.MaxBytes)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	lines.keepError = s.spec.KeepError
	if s.spec.Stream != nil {
		lines.end = []byte(s.spec.End)
	}
	switch s.format {
	case CSV:
		csv, err := newCSV(lines, comma)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", s.name, err)
		}
		s.current = csv.next
	case Lines:
		s.current = lines.nextText
	default:
		s.current = lines.nextJSON
	}
	return nil
}

func unpack(r *bufio.Reader) (*bufio.Reader, error) {
	zipped, err := begins(r, "\x1f\x8b")
	if err != nil {
		return nil, err
	}
	packed, err := begins(r, "\x28\xb5\x2f\xfd")
	if err != nil {
		return nil, err
	}
	// Files of several frames may begin with one that has an index or nothing.
	for kind := byte(0x50); kind <= 0x5f && !packed; kind++ {
		if packed, err = begins(r, string([]byte{kind, 0x2a, 0x4d, 0x18})); err != nil {
			return nil, err
		}
	}
	switch {
	case zipped:
		m := &members{from: r}
		if err := m.begin(); err != nil {
			return nil, err
		}
		return bufio.NewReaderSize(m, 256<<10), nil
	case packed:
		// One goroutine and a small window: memory stays flat, and a file that
		// asks for a window of gigabytes is refused.
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, err
		}
		return bufio.NewReaderSize(z.IOReadCloser(), 256<<10), nil
	}
	return r, nil
}

// members unpacks a gzip file member by member. The decoder alone returns io.EOF for a
// header that is cut, as if the input ended there.
type members struct {
	zip  gzip.Reader
	from *bufio.Reader
}

func (m *members) begin() error {
	err := m.zip.Reset(m.from)
	m.zip.Multistream(false)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.zip.Read(p)
		switch {
		case !errors.Is(err, io.EOF):
			return n, err
		case n > 0:
			return n, nil
		}
		if _, err := m.from.Peek(1); err != nil {
			return 0, err // io.EOF: the file ends behind a member
		}
		if err := m.begin(); err != nil {
			return 0, err
		}
	}
}

// begins reports whether a stream begins with a mark. It waits for no more bytes than it
// needs: the first record of a stream may be shorter than the mark.
func begins(r *bufio.Reader, mark string) (bool, error) {
	for n := range len(mark) {
		head, err := r.Peek(n + 1)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if head[n] != mark[n] {
			return false, nil
		}
	}
	return true, nil
}

type counting struct {
	io.Reader
	source *Source
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.source.read.Add(int64(n))
	return n, err
}
