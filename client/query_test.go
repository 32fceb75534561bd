package client

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
)

// asked returns a client of a server that answers every request with one text, and
// where the server notes what it was asked.
func asked(t *testing.T, status int, kind, answer string) (*Client, *string) {
	t.Helper()
	var seen string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Method + " " + r.URL.String()
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer)) // the client says if it is missing
	}))
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c, &seen
}

func TestQuery(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_500)
	for _, c := range []struct {
		answer string
		want   api.QueryResult
	}{
		{`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1700000000.500,"1"]},{"metric":{},"value":[1700000000.500,"+Inf"]}]},"warnings":["cut"],"infos":["n"]}`,
			api.QueryResult{Type: "vector", Series: []api.QuerySeries{
				{Labels: map[string]string{"__name__": "up"}, Points: []api.QueryPoint{{Time: at, Value: 1}}}, {Labels: map[string]string{}, Points: []api.QueryPoint{{Time: at, Value: math.Inf(1)}}},
			}, Warnings: []string{"cut"}, Infos: []string{"n"}}},
		{`{"status":"success","data":{"resultType":"vector","result":[]}}`, api.QueryResult{Type: "vector", Series: []api.QuerySeries{}}},
		{`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1700000000.5,"1e-7"],[1700000000.5,"NaN"]]}]}}`,
			api.QueryResult{Type: "matrix", Series: []api.QuerySeries{{Labels: map[string]string{"a": "b"}, Points: []api.QueryPoint{{Time: at, Value: 1e-7}, {Time: at, Value: math.NaN()}}}}}},
		{`{"status":"success","data":{"resultType":"scalar","result":[1700000000.5,"2"]}}`, api.QueryResult{Type: "scalar", Point: api.QueryPoint{Time: at, Value: 2}}},
		{`{"status":"success","data":{"resultType":"string","result":[1700000000.5,"<b>"]}}`, api.QueryResult{Type: "string", Point: api.QueryPoint{Time: at}, Text: "<b>"}},
	} {
		client, seen := asked(t, http.StatusOK, "application/json", c.answer)
		got, err := client.Query(t.Context(), "up + 1", at)
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b float64) bool { return a == b || a != a && b != b })); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.answer, err, diff)
		}
		if want := "GET /api/v1/query?query=up+%2B+1&time=1700000000.5"; *seen != want {
			t.Errorf("asked %s, want %s", *seen, want)
		}
		if _, err := client.QueryRange(t.Context(), "up", QueryRange{at, at.Add(time.Minute), 1500 * time.Millisecond}); err != nil {
			t.Error(err)
		}
		if want := "GET /api/v1/query_range?end=1700000060.5&query=up&start=1700000000.5&step=1.5"; *seen != want {
			t.Errorf("asked %s, want %s", *seen, want)
		}
		if _, err := client.Query(t.Context(), "up", time.Time{}); err != nil || *seen != "GET /api/v1/query?query=up" {
			t.Errorf("now: asked %s, %v", *seen, err)
		}
	}
}

func TestQueryErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
		answer string
		code   string
	}{
		{400, "application/json", `{"status":"error","errorType":"bad_data","error":"no"}`, "bad_data"},
		{404, "application/json", `{"status":"error","errorType":"not_found","error":"off","code":"past_off"}`, "past_off"},
		{403, "application/problem+json", `{"status":403,"code":"not_allowed","detail":"no"}`, "not_allowed"},
	} {
		client, _ := asked(t, c.status, c.kind, c.answer)
		_, err := client.Query(t.Context(), "up", time.Time{})
		if problem := (*api.Problem)(nil); !errors.As(err, &problem) || problem.Code != c.code || problem.Status != c.status || problem.Detail == "" {
			t.Errorf("%s is %#v", c.answer, err)
		}
	}
	for _, answer := range []string{`{`, `{"status":"success","data":{"resultType":"other","result":[]}}`, `{"status":"success","data":{"resultType":"scalar","result":[1e300,"1"]}}`,
		`{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"value":1}]}}`} {
		client, _ := asked(t, http.StatusOK, "application/json", answer)
		if got, err := client.Query(t.Context(), "up", time.Time{}); err == nil || !strings.Contains(err.Error(), "/api/v1/query") {
			t.Errorf("%s is %+v, %v", answer, got, err)
		}
	}
}
