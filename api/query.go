package api

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// QueryResult is the answer to a question in PromQL. As JSON it has the form of
// the field data of Prometheus: resultType and result.
type QueryResult struct {
	// Type is vector (series with one point each), matrix (series with points over
	// a time), scalar (one point without labels) or string.
	Type   string
	Series []QuerySeries // of a vector or a matrix
	Point  QueryPoint    // of a scalar; of a string only its time
	Text   string        // of a string

	// Warnings and Infos are remarks of the daemon, for example that the answer was cut.
	// They are not part of the JSON form.
	Warnings, Infos []string
}

// QuerySeries has the points of one set of labels, the oldest first.
type QuerySeries struct {
	Labels map[string]string // __name__ is the name of the metric
	Points []QueryPoint
}

// QueryPoint is a value at a time. As JSON it is a list of the time in seconds since
// 1970 and the value in quotes.
type QueryPoint struct {
	Time  time.Time
	Value float64 // may be NaN, +Inf or -Inf
}

// queryData is the JSON form of a QueryResult, and querySeries that of a series.
type queryData struct {
	ResultType string `json:"resultType"`
	Result     any    `json:"result"`
}

type querySeries struct {
	Metric map[string]string `json:"metric"`
	Value  *QueryPoint       `json:"value,omitempty"`
	Values []QueryPoint      `json:"values,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r QueryResult) MarshalJSON() ([]byte, error) {
	data := queryData{ResultType: r.Type}
	switch r.Type {
	case "scalar":
		data.Result = r.Point
	case "string":
		data.Result = []any{json.Number(secondsOf(r.Point.Time)), r.Text}
	default:
		list := make([]querySeries, len(r.Series))
		for i, s := range r.Series {
			list[i].Metric = s.Labels
			if r.Type == "vector" && len(s.Points) == 1 {
				list[i].Value = &s.Points[0]
			} else {
				list[i].Values = s.Points
			}
		}
		data.Result = list
	}
	return json.Marshal(data)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *QueryResult) UnmarshalJSON(text []byte) error {
	var result json.RawMessage
	data := queryData{Result: &result}
	if err := json.Unmarshal(text, &data); err != nil {
		return err
	}
	r.Type = data.ResultType
	switch r.Type {
	case "scalar":
		return json.Unmarshal(result, &r.Point)
	case "string":
		at, value, err := readPair(result)
		r.Point.Time, r.Text = at, value
		return err
	case "vector", "matrix":
		var list []querySeries
		if err := json.Unmarshal(result, &list); err != nil {
			return err
		}
		r.Series = make([]QuerySeries, len(list))
		for i, s := range list {
			if s.Value != nil {
				s.Values = []QueryPoint{*s.Value}
			}
			r.Series[i] = QuerySeries{Labels: s.Metric, Points: s.Values}
		}
		return nil
	}
	return fmt.Errorf("the answer has the unknown type %q", r.Type)
}

// MarshalJSON implements json.Marshaler.
func (p QueryPoint) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%s,%q]", secondsOf(p.Time), strconv.FormatFloat(p.Value, 'g', -1, 64)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *QueryPoint) UnmarshalJSON(text []byte) error {
	at, value, err := readPair(text)
	if err != nil {
		return err
	}
	p.Time = at
	p.Value, err = strconv.ParseFloat(value, 64)
	return err
}

// readPair reads a time and a text.
func readPair(text []byte) (at time.Time, value string, err error) {
	var pair [2]json.RawMessage
	var seconds float64
	if err := json.Unmarshal(text, &pair); err != nil {
		return at, "", err
	}
	if err := json.Unmarshal(pair[0], &seconds); err != nil {
		return at, "", err
	}
	if math.Abs(seconds) > math.MaxInt64/1e4 {
		return at, "", fmt.Errorf("%s is no time", pair[0])
	}
	err = json.Unmarshal(pair[1], &value)
	return time.UnixMilli(int64(math.Round(seconds * 1000))), value, err
}

// secondsOf writes a time in seconds since 1970.
func secondsOf(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}
