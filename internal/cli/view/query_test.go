package view

import (
	"math"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Answers to questions look as testdata says, on screens of all widths.
func TestQueries(t *testing.T) {
	device := func(gpu string, points ...api.QueryPoint) api.QuerySeries {
		return api.QuerySeries{Labels: map[string]string{"__name__": "gpu_temperature_celsius", "gpu": gpu, "job": "berth"}, Points: points}
	}
	at := func(minute int, v float64) api.QueryPoint {
		return api.QueryPoint{Time: now.Add(time.Duration(minute) * time.Minute), Value: v}
	}
	var rising, falling []api.QueryPoint
	for i := range 30 {
		rising = append(rising, at(i, float64(40+i)))
		if i < 10 || i > 20 {
			falling = append(falling, at(i, 70-float64(i)/3))
		}
	}
	compareViews(t, map[string]func(to term.Screen) []string{
		"query": func(to term.Screen) []string {
			return Query(api.QueryResult{Type: "vector", Series: []api.QuerySeries{device("GPU-0", at(0, 41)), device("odd\x1b[2J", at(0, 1e6/3)), device("GPU-2", at(0, math.NaN()))}, Warnings: []string{"results truncated due to limit"}}, to)
		},
		"query-range": func(to term.Screen) []string {
			return Query(api.QueryResult{Type: "matrix", Series: []api.QuerySeries{device("GPU-0", rising...), device("GPU-1", falling...)}, Infos: []string{"PromQL info: metric might not be a counter"}}, to)
		},
		"query-other": func(to term.Screen) []string {
			lines := Query(api.QueryResult{Type: "scalar", Point: at(0, 2.5)}, to)
			lines = append(lines, Query(api.QueryResult{Type: "string", Text: "a\x1b[2Jb"}, to)...)
			lines = append(lines, Query(api.QueryResult{Type: "vector"}, to)...)
			lines = append(lines, Query(api.QueryResult{Type: "vector", Series: []api.QuerySeries{{Points: []api.QueryPoint{at(0, 1e12)}}}}, to)...)
			return append(lines, Query(api.QueryResult{Type: "matrix", Series: []api.QuerySeries{device("GPU-0", at(0, math.NaN()), at(1, math.NaN())), device("GPU-1", at(0, math.Inf(1)), at(1, 2))}}, to)...)
		},
	})
}
