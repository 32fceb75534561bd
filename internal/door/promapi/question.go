package promapi

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/common/model"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/series"
)

// question is a request with the parameters of its address and its form.
type question struct {
	*http.Request
	who access.Actor
	now time.Time
}

// mostForm is the largest form, in bytes: more than the longest expression needs.
const mostForm = 64 << 10

// read reads the parameters of a request, and refuses values that are too long. It
// ignores parameters that the route does not have, as Prometheus does.
func read(w http.ResponseWriter, r *http.Request, who access.Actor, now time.Time, parameters []*huma.Param) (*question, error) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return nil, bad("error parsing form values: %v", err)
	}
	for _, p := range parameters {
		values := r.Form[p.Name]
		if p.In == "path" {
			values = []string{r.PathValue(p.Name)}
		}
		for _, value := range values {
			if longest := *p.Schema.MaxLength; len(value) > longest {
				return nil, bad("invalid parameter %q: it has %d bytes, and the limit is %d", p.Name, len(value), longest)
			}
		}
	}
	return &question{r, who, now}, nil
}

func bad(format string, args ...any) error {
	return &series.Error{Fault: series.BadData, Text: fmt.Sprintf(format, args...)}
}

// invalid returns the error for a parameter.
func invalid(parameter string, err error) error {
	return bad("invalid parameter %q: %v", parameter, err)
}

// nameless reports whether the caller may see no names. A scraper gets them: it reads
// metrics for people who may see them.
func (q *question) nameless() bool {
	return q.who.Role != access.Scraper && access.May(q.who, access.Name, access.Object{}) != nil
}

// options reads the parameters common to all questions.
func (q *question) options() (o series.Options, err error) {
	o = series.Options{Nameless: q.nameless(), Waits: true}
	if o.Limit, err = q.number("limit"); err != nil {
		return o, err
	}
	if o.Timeout, err = q.duration("timeout"); err != nil {
		return o, err
	}
	o.Lookback, err = q.duration("lookback_delta")
	return o, err
}

// number reads a number that is not negative. It returns 0 if the number is not given.
func (q *question) number(name string) (int, error) {
	text := q.Form.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, invalid(name, fmt.Errorf("cannot parse %q to a number", text))
	case n < 0:
		return 0, invalid(name, fmt.Errorf("%s must be non-negative", name))
	}
	return n, nil
}

// duration reads a positive duration. It returns 0 if the duration is not given.
func (q *question) duration(name string) (time.Duration, error) {
	text := q.Form.Get(name)
	if text == "" {
		return 0, nil
	}
	d, err := parseDuration(text)
	switch {
	case err != nil:
		return 0, invalid(name, err)
	case d <= 0:
		return 0, invalid(name, fmt.Errorf("%q is not positive", text))
	}
	return d, nil
}

// moment reads a time. It returns otherwise if the time is not given.
func (q *question) moment(name string, otherwise time.Time) (time.Time, error) {
	text := q.Form.Get(name)
	if text == "" {
		return otherwise, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return time.Time{}, invalid(name, err)
	}
	return t, nil
}

// borders reads the times between which series have samples. Zero means no border.
func (q *question) borders() (from, to time.Time, err error) {
	if from, err = q.moment("start", time.Time{}); err != nil {
		return from, to, err
	}
	to, err = q.moment("end", time.Time{})
	return from, to, err
}

// The borders that Prometheus writes if there are none.
const (
	noStart = "-292273086-05-16T16:47:06Z"
	noEnd   = "+292277025-08-18T07:12:54.999999999Z"
)

// mostSeconds is further from 1970 than any sample.
const mostSeconds = 1 << 42

// parseTime parses seconds since 1970, with a fraction, or RFC 3339.
func parseTime(text string) (time.Time, error) {
	if text == noStart || text == noEnd {
		return time.Time{}, nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) < mostSeconds {
		whole, part := math.Modf(seconds)
		return time.Unix(int64(whole), int64(math.Round(part*1000))*int64(time.Millisecond)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", text)
}

// parseDuration parses seconds, with a fraction, or a duration such as 1h30m.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(seconds) < math.MaxInt64/float64(time.Second)) { // false for NaN
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", text)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", text)
}
