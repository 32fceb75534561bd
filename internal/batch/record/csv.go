package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
	"github.com/berth-gpu/berth/internal/text/words"
)

// csvDecoder turns each row into an object of strings. It is more lenient than
// encoding/csv (quotes inside a plain field are text), and a quote that is
// never closed spoils one line and not the rest of the file.
type csvDecoder struct {
	lines  *lines
	comma  byte
	header [][]byte // the columns, as JSON strings with a colon
	errors int      // index of the column that is left out; -1 if none is
	row    []byte
	out    []byte

	// No line that was read ahead closes a quote that is open before it, except for the
	// last one if ahead says so: they were read for a row whose quote they did not close.
	ahead quoteState
}

// quoteState says what the last line that was read ahead does to an open quote.
type quoteState int

const (
	staysOpen quoteState = iota
	closes               // but that row would have been too long
	tooLong              // the line is: no row reaches beyond it
)

// newCSV reads the header.
func newCSV(l *lines, comma byte) (*csvDecoder, error) {
	d := &csvDecoder{lines: l, comma: comma, errors: -1}
	row, _, err := d.nextRow()
	if err != nil {
		return d, err // io.EOF: an empty file has no records
	}
	if !utf8.Valid(row) {
		return d, errors.New("the header is not UTF-8 text")
	}
	seen := map[string]bool{}
	for _, name := range split(row, comma) {
		if seen[string(name)] {
			return d, fmt.Errorf("the header has the column %q twice: give it another name", name)
		}
		seen[string(name)] = true
		if string(name) == errorKey {
			d.errors = len(d.header)
		}
		d.header = append(d.header, append(rawjson.AppendQuote(nil, name), ':'))
	}
	return d, nil
}

func (d *csvDecoder) next(skip bool) ([]byte, int64, int64, error) {
	row, line, err := d.nextRow()
	if err != nil || skip {
		return nil, line, 0, err
	}
	if !utf8.Valid(row) {
		return nil, line, 0, &fault{row, "not UTF-8 text"}
	}
	fields := split(row, d.comma)
	if len(fields) != len(d.header) {
		return nil, line, 0, &fault{row, fmt.Sprintf("%s where the header has %d", words.Count(len(fields), "field"), len(d.header))}
	}
	d.out = append(d.out[:0], '{')
	for i, f := range fields {
		if i == d.errors {
			continue
		}
		if len(d.out) > 1 {
			d.out = append(d.out, ',')
		}
		d.out = append(d.out, d.header[i]...)
		d.out = rawjson.AppendQuote(d.out, f)
	}
	d.out = append(d.out, '}')
	return d.out, line, int64(len(row)), nil
}

// nextRow returns the next row, from one or several lines, and the line where
// it begins. Empty lines are not rows.
func (d *csvDecoder) nextRow() ([]byte, int64, error) {
	for {
		line, whole, err := d.lines.next()
		if err != nil {
			return nil, d.lines.number, err
		}
		if !whole {
			return nil, d.lines.number, d.lines.check(line, whole)
		}
		if len(line) > 0 {
			d.row = append(d.row[:0], line...)
			break
		}
	}
	start := d.lines.number
	if quoteOpen(d.row, d.comma, false) {
		if err := d.close(); err != nil {
			return nil, start, err
		}
	}
	return d.row, start, nil
}

// close adds lines to a row until its quote is closed. If that does not happen in time, it
// returns a fault, and the lines are read again. Each line is looked at once, however many
// rows begin with a quote.
func (d *csvDecoder) close() error {
	l := d.lines
	if len(l.again) == 0 {
		d.ahead = staysOpen
	}
	for d.ahead == staysOpen && len(d.row)+len(l.again) < l.max {
		line, whole, err := l.ahead()
		switch {
		case errors.Is(err, io.EOF):
			return d.unclosed()
		case err != nil:
			return err
		case !whole:
			d.ahead = tooLong
		case !quoteOpen(line, d.comma, true):
			d.ahead = closes
		}
	}
	if d.ahead != closes || len(d.row)+len(l.again) > l.max {
		return d.unclosed()
	}
	d.row = append(append(d.row, '\n'), l.again[:len(l.again)-1]...)
	l.number += int64(bytes.Count(l.again, []byte("\n")))
	l.again = l.again[:0]
	return nil
}

func (d *csvDecoder) unclosed() error {
	return &fault{bytes.Clone(d.row), "a quote is never closed"}
}

// quoteOpen reports whether a quoted field is open at the end of a line, given whether
// one was open at its beginning.
func quoteOpen(line []byte, comma byte, open bool) bool {
	atStart := !open
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case open && c == '"' && i+1 < len(line) && line[i+1] == '"':
			i++
		case open && c == '"':
			open = false
		case !open && atStart && c == '"':
			open = true
		}
		atStart = !open && c == comma
	}
	return open
}

// split cuts a row into its fields, without quotes.
func split(row []byte, comma byte) [][]byte {
	var fields [][]byte
	for {
		var quoted []byte
		isQuoted := len(row) > 0 && row[0] == '"'
		if isQuoted {
			quoted, row = unquote(row[1:])
		}
		field, after, more := bytes.Cut(row, []byte{comma})
		if isQuoted { // text after the closing quote belongs to the field
			field = append(quoted, field...)
		}
		fields = append(fields, field)
		if !more {
			return fields
		}
		row = after
	}
}

// unquote reads up to the closing quote; doubled quotes are one.
func unquote(s []byte) (field, rest []byte) {
	for {
		before, after, found := bytes.Cut(s, []byte{'"'})
		field = append(field, before...)
		if !found {
			return field, nil
		}
		if len(after) == 0 || after[0] != '"' {
			return field, after
		}
		field = append(field, '"')
		s = after[1:]
	}
}
