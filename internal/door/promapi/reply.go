package promapi

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/access"
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

const (
	// smallAnswer is the size below which an answer is not worth compressing.
	smallAnswer = 1 << 10
	// sendLimit is how long a caller may take to read an answer, which takes memory
	// meanwhile.
	sendLimit = time.Minute
)

// write sends an answer, compressed if the caller accepts that.
func write(w http.ResponseWriter, r *http.Request, status int, encode func(io.Writer) error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept-Encoding")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendLimit)) // a recorder in a test has none
	out := &sender{w: w, status: status, gzip: takesGzip(r.Header.Get("Accept-Encoding"))}
	if err := encode(out); err != nil { // the connection breaks, so that nobody takes a part for the whole
		panic(http.ErrAbortHandler)
	}
	out.close()
}

// sender holds back the beginning of an answer until it knows whether the answer is
// small.
type sender struct {
	w      http.ResponseWriter
	status int
	gzip   bool
	held   []byte
	out    io.Writer // nil until something is sent
	zip    *gzip.Writer
}

// Write sends or holds back a piece of the answer.
func (s *sender) Write(b []byte) (int, error) {
	if s.out != nil {
		return s.out.Write(b)
	}
	if s.held = append(s.held, b...); len(s.held) < smallAnswer {
		return len(b), nil
	}
	s.out = s.w
	if s.gzip {
		s.w.Header().Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(s.w, gzip.BestSpeed) // the level is valid
		s.out = s.zip
	}
	s.w.WriteHeader(s.status)
	_, err := s.out.Write(s.held)
	return len(b), err
}

// close sends what is left.
func (s *sender) close() {
	switch {
	case s.zip != nil:
		_ = s.zip.Close()
	case s.out == nil:
		s.w.Header().Set("Content-Length", strconv.Itoa(len(s.held)))
		s.w.WriteHeader(s.status)
		_, _ = s.w.Write(s.held)
	}
}

// takesGzip reports whether a list of encodings contains gzip and does not forbid it.
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
