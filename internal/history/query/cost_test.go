package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/history/series"
)

// nested wraps an expression in others, each with %s in the place of the one
// before.
func nested(expr string, times int, around string) string {
	for range times {
		expr = fmt.Sprintf(around, expr)
	}
	return expr
}

// bomb is a label of ten bytes that every level makes ten times as long.
func bomb(levels int) string {
	return nested(`label_replace(vector(1),"a","xxxxxxxxxx","","")`, levels, `label_replace(%s,"a","`+strings.Repeat("${1}", 10)+`","a","(.*)")`)
}

// What a question would build or look at is refused before it is.
func TestCosts(t *testing.T) {
	e := New(open(t, func(second int, add func(float64, string, ...string)) {
		for i := range 100 {
			add(float64(i), "many", "i", fmt.Sprint(i), "long", strings.Repeat("x", 200))
		}
	}), Limits{Time: 10 * time.Minute}) // the clock refuses nothing
	day := 24 * time.Hour
	for _, c := range []struct {
		expr string
		over time.Duration // zero: about one moment
		step time.Duration
		says string // empty: it is answered
	}{
		{expr: bomb(3)},
		{expr: bomb(6), says: "builds labels and remarks of up to"},
		{expr: bomb(7), says: "builds labels and remarks of up to"},
		{expr: nested(`vector(1)`, 40, `label_join(%s,"a","-","a","a","a")`), says: "builds labels"},
		{expr: nested(`many`, 3, `label_replace(%s,"l","$1$1$1","long","(.*)")`)},
		{expr: nested(`many`, 12, `label_join(%s,"long","","long","long")`), says: "builds labels"},
		{expr: `label_replace(many, "a", "$1", "long", "` + strings.Repeat("(a|b|.)*", 200) + `")`, says: "regular expressions of label_replace"},
		{expr: `label_replace(many, "a", "$1", "i", "(.).*")`},
		{expr: `sum_over_time(sum_over_time(sum_over_time(vector(1)[1d:1s])[1d:1s])[1d:1s])`, says: "a subquery of the query has about 259,201 steps"},
		{expr: `sum_over_time(sum_over_time(vector(1)[12h:1s])[12h:1s])`, says: "looks at about"},
		{expr: `quantile_over_time(0.5, many[90d])`, over: day, step: time.Minute, says: "looks at about"},
		{expr: `max_over_time(many[1h])`, over: day, step: time.Minute},
		{expr: `sum_over_time(many[10d] @ 1700000000)`, over: day, step: time.Minute}, // evaluated once
		{expr: `quantile_over_time(scalar(vector(time())), many[1d] @ 1700000000)`, over: day, step: time.Minute, says: "looks at about"},
		{expr: `sum_over_time(vector(1)[1s:1ms])`, over: 3650 * day, step: day, says: "steps, and the limit is 100,000"},
		{expr: `count_values("v", vector(time()))`, over: 11_000 * time.Second, step: time.Second, says: "makes room for about"},
		{expr: `count_values("v", many)`, over: 120 * time.Second, step: time.Second},
		{expr: `many and on() (vector(time()) == 1700000100)`, over: 10_000 * time.Second, step: time.Second},
		{expr: `quantile_over_time(time(), vector(1)[2s:1s])`, over: 10_000 * time.Second, step: time.Second},
		{expr: nested(`quantile_over_time(time(), vector(1)[2s:1s])`, 3, `%s + quantile_over_time(time(), vector(1)[2s:1s])`), over: 10_000 * time.Second, step: time.Second, says: "builds labels and remarks"},
		{expr: `sum_over_time((` + strings.Repeat("vector(1) + ", 800) + `vector(1))[2h:1s])`, says: "makes room"},
	} {
		var err error
		if c.over == 0 {
			_, err = e.Instant(t.Context(), c.expr, at(120), series.Options{})
		} else {
			_, err = e.Range(t.Context(), c.expr, at(120).Add(-c.over), at(120), c.step, series.Options{})
		}
		var found *series.Error
		switch refused := errors.As(err, &found); {
		case c.says == "" && err != nil, c.says != "" && (!refused || !strings.Contains(found.Text, c.says)):
			t.Errorf("%.200s: %v, want %q", c.expr, err, c.says)
		}
	}
}
