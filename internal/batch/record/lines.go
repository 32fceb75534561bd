package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// lines cuts a stream into lines of limited length, without their ends.
type lines struct {
	r   *bufio.Reader
	max int

	keepError bool   // of Spec
	end       []byte // line after the last one; empty if there is none
	long      []byte // a line that did not fit into the reader's buffer
	again     []byte // lines that were read ahead, to be read before the rest; each has its end
	number    int64  // number of the last line read, from 1
}

// newLines skips a byte order mark.
func newLines(r *bufio.Reader, max int) (*lines, error) {
	mark, err := begins(r, "\xef\xbb\xbf")
	if err != nil {
		return nil, err
	}
	if mark {
		_, _ = r.Discard(3) // they are in the buffer
	}
	return &lines{r: r, max: max}, nil
}

// next returns the next line, valid until the next call. whole is false if the
// line was longer than allowed; then next returns only its beginning.
func (l *lines) next() (line []byte, whole bool, err error) {
	if len(l.again) > 0 {
		l.number++
		line, l.again, _ = bytes.Cut(l.again, []byte("\n"))
		return line[:min(len(line), l.max)], len(line) <= l.max, nil
	}
	line, whole, err = l.read()
	if err == nil {
		l.number++
	}
	return line, whole, err
}

// ahead reads the line after those that were read ahead, keeps it with them, and returns
// it as next does.
func (l *lines) ahead() (line []byte, whole bool, err error) {
	line, whole, err = l.read()
	if err != nil {
		return nil, false, err
	}
	l.again = append(l.again, line...)
	if !whole {
		l.again = append(l.again, ' ') // so that it is still too long when it is read again
	}
	l.again = append(l.again, '\n')
	return line, whole, nil
}

// read reads a line of the stream.
func (l *lines) read() (line []byte, whole bool, err error) {
	line, err = l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.gather(line)
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil // the last line need not have an end
	}
	if err != nil {
		return nil, false, err
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if len(l.end) > 0 && bytes.Equal(line, l.end) {
		l.r.Reset(eof{})
		return nil, false, io.EOF
	}
	return line[:min(len(line), l.max)], len(line) <= l.max, nil
}

// eof is a stream that has ended.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// gather reads a line that is longer than the buffer. It keeps as much as is allowed, and
// one byte more to show that the line is too long.
func (l *lines) gather(part []byte) ([]byte, error) {
	l.long = l.long[:0]
	for err := bufio.ErrBufferFull; ; part, err = l.r.ReadSlice('\n') {
		l.long = append(l.long, part[:min(len(part), max(l.max+1-len(l.long), 0))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
	}
}

// check returns a fault if a line is not text that a worker can take.
func (l *lines) check(line []byte, whole bool) error {
	if !whole {
		const keep = 4096
		return &fault{line[:min(len(line), keep)], fmt.Sprintf("longer than %d bytes: only its beginning is here", l.max)}
	}
	if !utf8.Valid(line) {
		return &fault{line, "not UTF-8 text"}
	}
	return nil
}

// nextText returns the next line as a JSON string. It is a decoder.
func (l *lines) nextText(skip bool) ([]byte, int64, int64, error) {
	line, whole, err := l.next()
	if err != nil || skip {
		return nil, l.number, 0, err
	}
	if err := l.check(line, whole); err != nil {
		return nil, l.number, 0, err
	}
	return rawjson.AppendQuote(nil, line), l.number, int64(len(line)), nil
}

// nextJSON returns the next line of JSON, and skips empty lines. It is a decoder.
func (l *lines) nextJSON(skip bool) ([]byte, int64, int64, error) {
	for {
		line, whole, err := l.next()
		if err != nil {
			return nil, l.number, 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 && whole {
			continue
		}
		if skip {
			return nil, l.number, 0, nil
		}
		if err := l.check(line, whole); err != nil {
			return nil, l.number, 0, err
		}
		if !rawjson.Valid(line) {
			return nil, l.number, 0, &fault{line, "not JSON: " + complaint(line)}
		}
		size := int64(len(line))
		if !l.keepError {
			line = withoutError(line)
		}
		return line, l.number, size, nil
	}
}

// complaint returns what is wrong with a line of JSON, in the words of the decoder.
func complaint(line []byte) string {
	var value json.RawMessage
	err := json.Unmarshal(line, &value)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("%v at byte %d", err, syntax.Offset)
	}
	return fmt.Sprint(err)
}
