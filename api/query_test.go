package api

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// An answer that is written is read as the same, and written as Prometheus does.
func TestQueryResultsAsJSON(t *testing.T) {
	for _, text := range []string{
		`{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1700000000.5,"1"]},{"metric":{},"value":[0,"+Inf"]}]}`,
		`{"resultType":"vector","result":[]}`,
		`{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1700000000.001,"1e-07"],[-1.5,"NaN"]]}]}`,
		`{"resultType":"scalar","result":[1700000000,"2"]}`,
		`{"resultType":"string","result":[1700000000,"a \"b\""]}`,
	} {
		var r QueryResult
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if back, err := json.Marshal(r); err != nil || string(back) != text {
			t.Errorf("%s is written as %s, %v", text, back, err)
		}
	}
	var p QueryPoint
	if err := json.Unmarshal([]byte(`[1.5,"-Inf"]`), &p); err != nil || !p.Time.Equal(time.UnixMilli(1500)) || !math.IsInf(p.Value, -1) {
		t.Errorf("the point is %v, %v", p, err)
	}
}
