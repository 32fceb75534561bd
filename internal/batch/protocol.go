package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
	"github.com/berth-gpu/berth/internal/batch/record"
	"github.com/berth-gpu/berth/internal/text/words"
)

// The protocol consists of lines of JSON on two pipes; docs/reference/batch-protocol.md
// specifies it.

// ProtocolVersion is the version that this berth speaks.
const ProtocolVersion = 1

// The file descriptors of the pipes in the worker.
const workerIn, workerOut = 3, 4

// The variables of a worker: the numbers of the pipes, the version of the protocol, and
// its name.
const (
	envIn       = "BERTH_WORKER_IN"
	envOut      = "BERTH_WORKER_OUT"
	envProtocol = "BERTH_WORKER_PROTOCOL"
	envName     = "BERTH_WORKER_NAME"
)

// The types of messages that a worker sends.
const (
	messageReady    = "ready"
	messageResult   = "result"
	messageError    = "error"
	messageOOM      = "oom"
	messageProgress = "progress"
	messageBye      = "bye"
)

// message is a line from a worker.
type message struct {
	kind     string
	id       int64
	protocol int64
	ahead    bool              // of ready: the worker reads the next batch while it works on one
	outcomes []byte            // of a result: a JSON array
	errors   map[string]string // of a result: by the place of the record in the batch
	text     string            // of error and oom
}

// appendBatch appends the message that hands records to a worker.
func appendBatch(to []byte, id int64, records []record.Record) []byte {
	to = append(to, `{"type":"batch","id":`...)
	to = strconv.AppendInt(to, id, 10)
	to = append(to, `,"records":[`...)
	for i, r := range records {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, r.Data...)
	}
	return append(to, "]}\n"...)
}

// byeMessage asks a worker to end.
const byeMessage = `{"type":"bye"}` + "\n"

// parseMessage returns the message in a line, or an error if the line has none.
func parseMessage(line []byte) (message, error) {
	line = bytes.TrimSpace(line)
	switch {
	case !utf8.Valid(line):
		return message{}, fmt.Errorf("not UTF-8 text: %.60q", line)
	case !rawjson.Valid(line):
		return message{}, fmt.Errorf("not JSON: %.60q", line)
	case !rawjson.IsObject(line):
		return message{}, fmt.Errorf("not an object: %.60q", line)
	}
	m := message{id: -1}
	for key, value := range rawjson.Fields(line) {
		var err error
		switch string(key) {
		case `"type"`:
			m.kind = rawjson.Text(value)
		case `"id"`:
			m.id, err = strconv.ParseInt(string(value), 10, 64)
		case `"protocol"`:
			m.protocol, err = strconv.ParseInt(string(value), 10, 64)
		case `"ahead"`:
			m.ahead, err = strconv.ParseBool(string(value))
		case `"outcomes"`:
			m.outcomes = value
		case `"errors"`:
			err = json.Unmarshal(value, &m.errors)
		case `"text"`:
			m.text = rawjson.Text(value)
		}
		if err != nil {
			return message{}, fmt.Errorf("%s cannot be %.60s", key, value)
		}
	}
	switch m.kind {
	case messageReady, messageResult, messageError, messageOOM, messageProgress, messageBye:
		return m, nil
	}
	return message{}, fmt.Errorf("a message of unknown type %.40q", m.kind)
}

// split returns the outcome of each of n records of a result, and the errors by record.
// The slices point into the line.
func (m message) split(n int) (outcomes [][]byte, faults map[int]string, err error) {
	outcomes = make([][]byte, 0, n)
	for o := range rawjson.Elements(m.outcomes) {
		outcomes = append(outcomes, o)
	}
	if len(outcomes) != n {
		return nil, nil, fmt.Errorf("%s for %s", words.Count(len(outcomes), "outcome"), words.Count(n, "record"))
	}
	for key, text := range m.errors {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= n {
			return nil, nil, fmt.Errorf("an error for record %.20q of %d", key, n)
		}
		if faults == nil {
			faults = map[int]string{}
		}
		faults[i] = text
	}
	return outcomes, faults, nil
}

// errTooLong means that a line was longer than allowed. readLine skips the rest of it.
var errTooLong = errors.New("an answer that is too long")

// readLine returns the next line, in memory of its own and without its end. likely is its
// approximate length.
func readLine(r *bufio.Reader, likely, most int) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		if len(line)+len(part) > most {
			line, long = nil, true
		} else if !long {
			if line == nil && err != nil {
				line = make([]byte, 0, min(max(likely, 2*len(part)), most))
			}
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(line) > 0 || long):
			return nil, io.ErrUnexpectedEOF // the worker died in the middle of a line
		case err != nil:
			return nil, err
		case long:
			return nil, errTooLong
		}
		return line, nil
	}
}
