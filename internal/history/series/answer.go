package series

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
)

// Shape is the kind of an answer.
type Shape string

// The shapes, as Prometheus calls them.
const (
	Vector Shape = "vector" // series with one point each
	Matrix Shape = "matrix" // series with points over a time
	Scalar Shape = "scalar" // one point without labels
	Text   Shape = "string"
)

// Answer is the answer to a question in PromQL.
type Answer struct {
	Shape    Shape
	Series   []Series // for a vector or a matrix
	Point    Point    // for a scalar; for a text only its time
	Text     string
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
	e.b = append(strconv.AppendQuote([]byte(`{"resultType":`), string(a.Shape)), `,"result":`...)
	switch a.Shape {
	case Scalar:
		e.b = appendPoint(e.b, a.Point)
	case Text:
		e.b = appendTime(append(e.b, '['), a.Point.T)
		e.b = append(e.value(a.Text, ','), ']')
	default:
		e.b = append(e.b, '[')
		for i, s := range a.Series {
			if i > 0 {
				e.b = append(e.b, ',')
			}
			e.series(a.Shape, s)
		}
		e.b = append(e.b, ']')
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

func (e *encoder) series(shape Shape, s Series) {
	e.b = append(e.b, `{"metric"`...)
	e.b = e.value(s.Labels.Map(), ':')
	if shape == Vector && len(s.Points) == 1 {
		e.b = append(appendPoint(append(e.b, `,"value":`...), s.Points[0]), '}')
		e.flush(piece)
		return
	}
	e.b = append(e.b, `,"values":[`...)
	for i, p := range s.Points {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = appendPoint(e.b, p)
		e.flush(piece)
	}
	e.b = append(e.b, `]}`...)
	e.flush(piece)
}

// appendPoint appends a time in seconds and a value in quotes, because JSON has no
// infinite numbers.
func appendPoint(b []byte, p Point) []byte {
	b = append(appendTime(append(b, '['), p.T), ',', '"')
	format := byte('f')
	if size := math.Abs(p.V); size != 0 && (size < 1e-6 || size >= 1e21) { // use the format of Prometheus
		format = 'e'
	}
	b = strconv.AppendFloat(b, p.V, format, -1, 64)
	if math.IsInf(p.V, 1) {
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
