package series

import (
	"encoding/json"
	"math"
	"strconv"
)

// Shape is what kind of answer a question has.
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
	Series   []Series // of a vector or a matrix
	Point    Point    // of a scalar; of a text only its time
	Text     string
	Warnings []string
	Infos    []string
}

// MarshalJSON writes the answer as the data field of Prometheus' HTTP API:
// resultType and result.
func (a Answer) MarshalJSON() ([]byte, error) {
	b := append(strconv.AppendQuote([]byte(`{"resultType":`), string(a.Shape)), `,"result":`...)
	switch a.Shape {
	case Scalar:
		b = appendPoint(b, a.Point)
	case Text:
		b = appendTime(append(b, '['), a.Point.T)
		text, err := json.Marshal(a.Text)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, ','), text...), ']')
	default:
		b = append(b, '[')
		for i, s := range a.Series {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendSeries(b, a.Shape, s); err != nil {
				return nil, err
			}
		}
		b = append(b, ']')
	}
	return append(b, '}'), nil
}

func appendSeries(b []byte, shape Shape, s Series) ([]byte, error) {
	labels, err := json.Marshal(s.Labels.Map())
	if err != nil {
		return nil, err
	}
	b = append(append(b, `{"metric":`...), labels...)
	if shape == Vector && len(s.Points) == 1 {
		return append(appendPoint(append(b, `,"value":`...), s.Points[0]), '}'), nil
	}
	b = append(b, `,"values":[`...)
	for i, p := range s.Points {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPoint(b, p)
	}
	return append(b, `]}`...), nil
}

// appendPoint appends a time in seconds and a value in quotes: JSON has no
// infinite numbers.
func appendPoint(b []byte, p Point) []byte {
	b = append(appendTime(append(b, '['), p.T), ',', '"')
	format := byte('f')
	if size := math.Abs(p.V); size != 0 && (size < 1e-6 || size >= 1e21) { // as Prometheus writes it
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
