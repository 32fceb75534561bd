package series

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// Answer is the answer to a question in PromQL.
type Answer struct {
	Value    parser.Value // of the engine, without native histograms
	Warnings []string
	Infos    []string
	// Release gives back the room that the answer takes in memory, after it was sent.
	// Only answers to questions that wait need it; it may be nil.
	Release func()
}

// MarshalJSON returns the answer as the data field of Prometheus' HTTP API:
// resultType and result.
func (a Answer) MarshalJSON() ([]byte, error) {
	var all bytes.Buffer
	err := a.Encode(&all)
	return all.Bytes(), err
}

// Encode writes the answer as MarshalJSON returns it, a piece at a time.
func (a Answer) Encode(w io.Writer) error {
	e := encoder{w: w}
	e.b = append(strconv.AppendQuote([]byte(`{"resultType":`), string(a.Value.Type())), `,"result":`...)
	switch v := a.Value.(type) {
	case promql.Scalar:
		e.b = appendPoint(e.b, v.T, v.V)
	case promql.String:
		e.b = appendTime(append(e.b, '['), v.T)
		e.b = append(e.value(v.V, ','), ']')
	case promql.Vector:
		e.list(len(v), func(i int) {
			e.b = append(e.value(v[i].Metric.Map(), ':'), `,"value":`...)
			e.b = appendPoint(e.b, v[i].T, v[i].F)
		})
	case promql.Matrix:
		e.list(len(v), func(i int) {
			e.b = append(e.value(v[i].Metric.Map(), ':'), `,"values":[`...)
			for k, p := range v[i].Floats {
				if k > 0 {
					e.b = append(e.b, ',')
				}
				e.b = appendPoint(e.b, p.T, p.F)
				e.flush(piece)
			}
			e.b = append(e.b, ']')
		})
	}
	e.b = append(e.b, '}')
	e.flush(0)
	return e.err
}

// encoder collects pieces of JSON and writes them.
type encoder struct {
	w   io.Writer
	b   []byte
	err error
}

// piece is the number of bytes that are written at a time.
const piece = 32 << 10

// flush writes the collected bytes, if there are more than most.
func (e *encoder) flush(most int) {
	if len(e.b) <= most {
		return
	}
	if e.err == nil {
		_, e.err = e.w.Write(e.b)
	}
	e.b = e.b[:0]
}

// value appends a value, after a byte.
func (e *encoder) value(v any, after byte) []byte {
	text, err := json.Marshal(v)
	if e.err == nil {
		e.err = err
	}
	return append(append(e.b, after), text...)
}

// list writes a list of series. Each appends the labels of one, and its points.
func (e *encoder) list(n int, each func(i int)) {
	e.b = append(e.b, '[')
	for i := range n {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, `{"metric"`...)
		each(i)
		e.b = append(e.b, '}')
		e.flush(piece)
	}
	e.b = append(e.b, ']')
}

// appendPoint appends a time in seconds and a value in quotes, because JSON has no
// infinite numbers.
func appendPoint(b []byte, t int64, v float64) []byte {
	b = append(appendTime(append(b, '['), t), ',', '"')
	format := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) { // use the format of Prometheus
		format = 'e'
	}
	b = strconv.AppendFloat(b, v, format, -1, 64)
	if math.IsInf(v, 1) {
		b = append(b[:len(b)-len("+Inf")], "+Inf"...)
	}
	return append(b, '"', ']')
}

func appendTime(b []byte, t int64) []byte {
	if t < 0 {
		b, t = append(b, '-'), -t
	}
	b = strconv.AppendInt(b, t/1000, 10)
	if part := t % 1000; part != 0 {
		b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	}
	return b
}
