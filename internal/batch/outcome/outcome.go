// Package outcome keeps the outcomes of a run so that each is there exactly
// once, whatever dies.
//
// While a run is not finished, there is a folder OUTPUT.berth beside OUTPUT. In
// it, the run appends outcomes to a file in groups, and a journal says after
// each group how long the file is and which records are in it. A run that was
// killed continues from its journal: it cuts the file back to that length, and
// does not do the recorded records again. OUTPUT itself appears at the end, by
// a rename, so it never holds half a record or half a run.
package outcome

import (
	"bytes"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// Outcome is the result of one record.
type Outcome struct {
	Index  int64  // index of the record
	Data   []byte // one JSON value, without line ends
	Failed bool   // whether Data carries an error
}

// ErrorKey is the field that a failed record carries.
const ErrorKey = "_error"

// inputKey is the field for a record that is not an object, so that it can carry an
// error.
const inputKey = "_input"

// Failure returns the outcome of a record that failed: the record itself, with the error
// beside its fields, so that it can be run again unchanged.
func Failure(index int64, data []byte, text string) Outcome {
	out := make([]byte, 0, len(data)+len(text)+len(ErrorKey)+8)
	out = append(out, '{')
	if rawjson.IsObject(data) {
		for key, value := range rawjson.Fields(data) {
			if rawjson.Is(key, ErrorKey) {
				continue // the error of an earlier run
			}
			out = appendField(out, key, value)
		}
	} else {
		out = appendField(out, rawjson.Quote(inputKey), data)
	}
	out = appendField(out, rawjson.Quote(ErrorKey), rawjson.Quote(text))
	return Outcome{Index: index, Data: append(out, '}'), Failed: true}
}

// Success returns the outcome that a worker gave. It counts as failed if it carries an
// error itself.
func Success(index int64, data []byte) Outcome {
	failed := bytes.Contains(data, []byte(ErrorKey)) && rawjson.Field(data, ErrorKey) != nil
	return Outcome{Index: index, Data: data, Failed: failed}
}

func appendField(to, key, value []byte) []byte {
	if len(to) > 1 {
		to = append(to, ',')
	}
	to = append(to, key...)
	to = append(to, ':')
	return append(to, value...)
}
