package series_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/berth-gpu/berth/internal/history/series"
)

// The answers are those of Prometheus to the same questions.
func TestAnswerAsJSON(t *testing.T) {
	labels := series.FromMap(map[string]string{series.Name: "up", "job": `a "b"`})
	for want, a := range map[string]series.Answer{
		`{"resultType":"vector","result":[]}`: {Shape: series.Vector},
		`{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"a \"b\""},"value":[1700000000.500,"1"]}]}`: {
			Shape: series.Vector, Series: []series.Series{{Labels: labels, Points: []series.Point{{T: 1_700_000_000_500, V: 1}}}},
		},
		`{"resultType":"matrix","result":[{"metric":{},"values":[[1,"0.25"],[2.007,"NaN"],[3,"+Inf"],[4,"-Inf"],[5,"1e-07"]]}]}`: {
			Shape: series.Matrix, Series: []series.Series{{Points: []series.Point{{T: 1000, V: .25}, {T: 2007, V: math.NaN()}, {T: 3000, V: math.Inf(1)}, {T: 4000, V: math.Inf(-1)}, {T: 5000, V: 1e-7}}}},
		},
		`{"resultType":"scalar","result":[-1.500,"1e+21"]}`:    {Shape: series.Scalar, Point: series.Point{T: -1500, V: 1e21}},
		`{"resultType":"string","result":[1,"\u003cb\u003e"]}`: {Shape: series.Text, Text: "<b>", Point: series.Point{T: 1000}},
	} {
		got, err := json.Marshal(a)
		if err != nil || string(got) != want {
			t.Errorf("%+v is %s (%v), want %s", a, got, err, want)
		}
	}
}

func TestLabels(t *testing.T) {
	l := series.FromMap(map[string]string{"b": "2", "a": "1"})
	if l.Get("b") != "2" || l.Get("c") != "" || l[0].Name != "a" {
		t.Errorf("labels are %v", l)
	}
	if other := series.FromMap(map[string]string{"a": "1", "b": "3"}); l.Compare(other) >= 0 || other.Compare(l) <= 0 || l.Compare(l) != 0 {
		t.Error("labels are not in the order of their values")
	}
}
