package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// maxLine is far above what an event takes.
const maxLine = 1 << 20

// frames reads a stream of server-sent events and gives the data of each; id
// and event lines only repeat what is in it. An event counts once the blank
// line after it is there: what a broken connection cut off is not given. A
// stream that breaks ends with the error, one that ends in good order without.
func frames(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		var data []byte
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) > 0 {
				data = appendData(data, line)
				continue
			}
			if len(data) > 0 && !yield(data, nil) {
				return
			}
			data = nil
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = &badEventError{err}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// appendData takes one line: name, colon, an optional space, value. Lines that
// begin with a colon are comments that keep the connection alive.
func appendData(data, line []byte) []byte {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if string(name) != "data" {
		return data
	}
	if len(data) > 0 {
		data = append(data, '\n')
	}
	return append(data, bytes.TrimPrefix(value, []byte(" "))...)
}
