package series_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/berth-gpu/berth/internal/history/series"
)

// The answers are those of Prometheus to the same questions.
func TestAnswerAsJSON(t *testing.T) {
	up := labels.FromStrings(labels.MetricName, "up", "job", `a "b"`)
	for want, a := range map[string]series.Answer{
		`{"resultType":"vector","result":[]}`: {Value: promql.Vector{}},
		`{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"a \"b\""},"value":[1700000000.500,"1"]}]}`: {
			Value: promql.Vector{{Metric: up, T: 1_700_000_000_500, F: 1}},
		},
		`{"resultType":"matrix","result":[{"metric":{},"values":[[1,"0.25"],[2.007,"NaN"],[3,"+Inf"],[4,"-Inf"],[5,"1e-07"]]}]}`: {
			Value: promql.Matrix{{Floats: []promql.FPoint{{T: 1000, F: .25}, {T: 2007, F: math.NaN()}, {T: 3000, F: math.Inf(1)}, {T: 4000, F: math.Inf(-1)}, {T: 5000, F: 1e-7}}}},
		},
		`{"resultType":"scalar","result":[-1.500,"1e+21"]}`:    {Value: promql.Scalar{T: -1500, V: 1e21}},
		`{"resultType":"string","result":[1,"\u003cb\u003e"]}`: {Value: promql.String{V: "<b>", T: 1000}},
	} {
		got, err := json.Marshal(a)
		if err != nil || string(got) != want {
			t.Errorf("%+v is %s (%v), want %s", a, got, err, want)
		}
	}
}

func TestTellingLabels(t *testing.T) {
	if series.Tells(labels.FromStrings("gpu", "GPU-a")) || !series.Tells(labels.FromStrings("gpu", "GPU-a", "user", "ann")) {
		t.Error("a user is a name, and a device is not")
	}
}
