// Package outcome keeps the outcomes of a run so that each is there exactly
// once, whatever dies.
//
// Beside OUTPUT there is a folder OUTPUT.berth while a run is not finished. In
// it, outcomes are appended in groups, and a journal says after each group how
// long the file is and which records are in it. A run that was killed goes on
// from what its journal says: the file is cut back to that length, and the
// records that it names are not done again. OUTPUT itself appears when all is
// done, by a rename, so it is never half a record and never half a run.
package outcome

import (
	"bytes"

	"github.com/berth-gpu/berth/internal/batch/rawjson"
)

// Outcome is what became of one record.
type Outcome struct {
	Index  int64  // of the record
	Data   []byte // one JSON value, without line ends
	Failed bool   // it carries an error
}

// ErrorKey is the field that a failed record carries.
const ErrorKey = "_error"

// inputKey holds a record that is no object, so that it can carry an error.
const inputKey = "_input"

// Failure is the outcome of a record that failed: the record itself, with the
// error beside its fields, so that it can be run again as it is.
func Failure(index int64, data []byte, text string) Outcome {
	out := make([]byte, 0, len(data)+len(text)+len(ErrorKey)+8)
	out = append(out, '{')
	if rawjson.IsObject(data) {
		for key, value := range rawjson.Fields(data) {
			if rawjson.Is(key, ErrorKey) {
				continue // that of an earlier run
			}
			out = appendField(out, key, value)
		}
	} else {
		out = appendField(out, rawjson.Quote(inputKey), data)
	}
	out = appendField(out, rawjson.Quote(ErrorKey), rawjson.Quote(text))
	return Outcome{Index: index, Data: append(out, '}'), Failed: true}
}

// Success is the outcome that a worker gave. If it carries an error of its
// own, it has failed all the same.
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
