package promapi

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/series"
)

// reply is the data of an answer, with what there is to remark.
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
		body, err := found.encode()
		if err != nil {
			refuse(w, r, err)
			return
		}
		write(w, r, http.StatusOK, body)
	}
}

// encode returns the answer in the form of Prometheus. It does not encode the
// whole as one value: encoding/json would copy a large answer once more.
func (found *reply) encode() ([]byte, error) {
	marshal := json.Marshal
	if data, itself := found.data.(json.Marshaler); itself {
		marshal = func(any) ([]byte, error) { return data.MarshalJSON() }
	}
	data, err := marshal(found.data)
	if err != nil {
		return nil, err
	}
	body := append(append([]byte(`{"status":"success","data":`), data...), appendTexts(appendTexts(nil, "warnings", found.warnings), "infos", found.infos)...)
	return append(body, '}'), nil
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
	series.Canceled:  499, // nobody reads it
	series.TimedOut:  http.StatusServiceUnavailable,
	series.Internal:  http.StatusInternalServerError,
	series.Missing:   http.StatusNotFound,
	series.Down:      http.StatusServiceUnavailable,
}

// errPastOff is the answer of a daemon that keeps no past.
var errPastOff = &series.Error{Fault: series.Missing, Text: "this daemon keeps no past: an administrator turns it on with past.store in the configuration (docs/past.md)"}

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
	write(w, r, statuses[known.Fault], body)
}

// smallAnswer is an answer that is not worth compressing.
const smallAnswer = 1 << 10

// write sends an answer, compressed if the caller takes that.
func write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept-Encoding")
	if len(body) < smallAnswer || !takesGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body) // fails only if the client is gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // there is such a level
	_, _ = z.Write(body)
	_ = z.Close()
}

// takesGzip reports whether a list of encodings has gzip and does not forbid it.
func takesGzip(list string) bool {
	for each := range strings.SplitSeq(list, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(each), ";")
		if strings.TrimSpace(name) != "gzip" {
			continue
		}
		weight, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(quality), "q="), 64)
		return err != nil || weight > 0
	}
	return false
}
