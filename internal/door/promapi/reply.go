package promapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/packed"
	"github.com/berth-gpu/berth/internal/history/series"
)

// reply is the data of an answer, with remarks.
type reply struct {
	data            any
	warnings, infos []string
}

// serve returns a handler that reads a question and writes its answer.
func (a api) serve(parameters []*huma.Param, answer func(*question) (reply, error)) func(http.ResponseWriter, *http.Request, access.Actor) {
	return func(w http.ResponseWriter, r *http.Request, who access.Actor) {
		q, err := read(w, r, who, a.Now(), parameters)
		var found reply
		if err == nil {
			found, err = answer(q)
		}
		if err != nil {
			refuse(w, r, err)
			return
		}
		if answer, is := found.data.(series.Answer); is && answer.Release != nil {
			defer answer.Release()
		}
		write(w, r, http.StatusOK, found.encode)
	}
}

// encode writes the answer in the form of Prometheus. It never holds a large answer in
// memory as a whole.
func (found *reply) encode(w io.Writer) error {
	if _, err := io.WriteString(w, `{"status":"success","data":`); err != nil {
		return err
	}
	if answer, is := found.data.(series.Answer); is {
		if err := answer.Encode(w); err != nil {
			return err
		}
	} else if data, err := json.Marshal(found.data); err != nil {
		return err
	} else if _, err := w.Write(data); err != nil {
		return err
	}
	_, err := w.Write(append(appendTexts(appendTexts(nil, "warnings", found.warnings), "infos", found.infos), '}'))
	return err
}

// appendTexts appends a list of texts to an object, unless it is empty.
func appendTexts(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	texts, _ := json.Marshal(list) // texts can always be encoded
	return append(append(append(append(b, ',', '"'), name...), '"', ':'), texts...)
}

// statuses has the HTTP status of each fault.
var statuses = map[series.Fault]int{
	series.BadData:   http.StatusBadRequest,
	series.Execution: http.StatusUnprocessableEntity,
	series.Canceled:  499, // nobody reads the answer
	series.TimedOut:  http.StatusServiceUnavailable,
	series.Internal:  http.StatusInternalServerError,
	series.Missing:   http.StatusNotFound,
	series.Down:      http.StatusServiceUnavailable,
}

// errPastOff is the answer of a daemon that keeps no past.
var errPastOff = &series.Error{Fault: series.Missing, Text: "this daemon keeps no past: an administrator turns it on with past.store in the configuration (berth help past)"}

// refuse writes an error in the form of Prometheus.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var known *series.Error
	if !errors.As(err, &known) {
		known = &series.Error{Fault: series.Internal, Text: err.Error()}
	}
	text := struct {
		Status    string       `json:"status"`
		ErrorType series.Fault `json:"errorType"`
		Error     string       `json:"error"`
		Code      string       `json:"code,omitempty"`
	}{Status: "error", ErrorType: known.Fault, Error: known.Text}
	if known == errPastOff {
		text.Code = "past_off"
	}
	body, _ := json.Marshal(text) // texts can always be encoded
	write(w, r, statuses[known.Fault], func(w io.Writer) error { _, err := w.Write(body); return err })
}

// sendLimit is how long a caller may take to read an answer, which takes memory
// meanwhile.
const sendLimit = time.Minute

// write sends an answer, compressed if the caller accepts that.
func write(w http.ResponseWriter, r *http.Request, status int, encode func(io.Writer) error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendLimit)) // a recorder in a test has none
	out := packed.New(w, r)
	out.WriteHeader(status)
	if err := encode(out); err != nil { // the connection breaks, so that nobody takes a part for the whole
		panic(http.ErrAbortHandler)
	}
	out.Close()
}
