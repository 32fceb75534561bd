package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"strconv"
)

// maxLine is far more than an event takes.
const maxLine = 1 << 20

// message is one message of a stream. A message without data only says how far the stream
// has come; in a message with data, the id repeats what is in the data.
type message struct {
	id   uint64 // 0 means none
	data []byte
}

// messages reads a stream of server-sent events and yields each message. It leaves out a
// message without the blank line after it, because a broken connection cut that one off.
// Only a stream that breaks ends with an error.
func messages(r io.Reader) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		var next message
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) > 0 {
				next.add(line)
				continue
			}
			if (len(next.data) > 0 || next.id != 0) && !yield(next, nil) {
				return
			}
			next = message{}
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = &badEventError{err}
		}
		if err != nil {
			yield(message{}, err)
		}
	}
}

// add takes one line: name, colon, an optional space, value. Lines that begin
// with a colon are comments that keep the connection alive.
func (f *message) add(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		f.id, _ = strconv.ParseUint(string(value), 10, 64)
	case "data":
		if len(f.data) > 0 {
			f.data = append(f.data, '\n')
		}
		f.data = append(f.data, value...)
	}
}
