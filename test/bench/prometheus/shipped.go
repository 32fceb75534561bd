package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	dashboard = "deploy/grafana/berth.json"
	rules     = "deploy/prometheus/berth.rules.yml"
)

// shippedQuery is a query of the dashboard or of the rules.
type shippedQuery struct{ where, expr string }

// panelQueries returns the queries of the dashboard as Grafana sends them, with
// everything chosen and with one machine and all GPUs chosen by name.
func panelQueries(instance string, gpus []string) ([]shippedQuery, error) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		return nil, err
	}
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
		Panels  []panel
	}
	var file panel
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	for i, name := range gpus {
		gpus[i] = regexp.QuoteMeta(name)
	}
	times := []string{"$__rate_interval", "1m0s", "$__interval", "15s", "$__range", "1h"}
	choices := []*strings.Replacer{
		strings.NewReplacer(append(times, "$instance", ".*", "$gpu", ".*")...),
		// Grafana doubles the backslashes of a text in quotes.
		strings.NewReplacer(append(times, "$instance", strings.ReplaceAll(regexp.QuoteMeta(instance), `\`, `\\`), "$gpu", strings.ReplaceAll("("+strings.Join(gpus, "|")+")", `\`, `\\`))...),
	}
	var list []shippedQuery
	var collect func(panels []panel)
	collect = func(panels []panel) {
		for _, p := range panels {
			for _, t := range p.Targets {
				for _, choice := range choices {
					list = append(list, shippedQuery{"panel " + p.Title, choice.Replace(t.Expr)})
				}
			}
			collect(p.Panels)
		}
	}
	collect(file.Panels)
	for _, q := range list {
		if strings.Contains(q.expr, "$") {
			return nil, fmt.Errorf("%s: nobody knows what Grafana makes of %s", q.where, q.expr)
		}
	}
	return list, nil
}

// ruleQueries returns the queries of the rules, and what is to the left of their
// last comparison, which has an answer if there are data.
func ruleQueries() ([]shippedQuery, error) {
	groups, errs := rulefmt.ParseFile(rules, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var list []shippedQuery
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			where := "rule " + r.Alert + r.Record
			list = append(list, shippedQuery{where, r.Expr})
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				return nil, err
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if b, ok := node.(*parser.BinaryExpr); ok && b.Op.IsComparisonOperator() {
					list = append(list, shippedQuery{where + ", compared", b.LHS.String()})
				}
				return nil
			})
		}
	}
	return list, nil
}

// askShipped asks everything that ships. Where the Prometheus of the same version
// has an answer, berth must have one too.
func askShipped(ctx context.Context, berth, same, older server, at time.Time) error {
	var wrong []error
	total := 0
	for _, s := range []server{berth, same, older} {
		variables, err := s.variables(ctx)
		if err != nil {
			return err
		}
		panels, err := panelQueries(variables["instance"][0], variables["gpu"])
		if err != nil {
			return err
		}
		list, err := ruleQueries()
		if err != nil {
			return err
		}
		list = append(panels, list...)
		total = len(list)
		for _, q := range list {
			got, err := s.instant(ctx, q.expr, at)
			if err == nil {
				_, err = s.over(ctx, q.expr, at)
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s: %w", q.where, q.expr, err))
				continue
			}
			if s != berth || len(got) > 0 {
				continue
			}
			want, err := same.instant(ctx, strings.ReplaceAll(q.expr, variables["instance"][0], ".*"), at)
			switch {
			case err != nil:
				wrong = append(wrong, fmt.Errorf("%s: %w", q.where, err))
			case len(want) > 0:
				wrong = append(wrong, fmt.Errorf("%s: berth has no answer to %s, and Prometheus has %d series", q.where, q.expr, len(want)))
			}
		}
		empty := 0
		for _, q := range panels {
			if got, err := s.instant(ctx, q.expr, at); err == nil && len(got) == 0 {
				fmt.Printf("%s has no answer to the %s: %s\n", s.name, q.where, q.expr)
				empty++
			}
		}
		if empty > len(panels)/10 {
			wrong = append(wrong, fmt.Errorf("%s has no answer to %d of %d queries of panels: the machine does too little", s.name, empty, len(panels)))
		}
	}
	fmt.Printf("\n%d queries of panels and rules were asked of three servers\n", total)
	return errors.Join(wrong...)
}

// variables returns the values that Grafana offers for the variables of the
// dashboard.
func (s server) variables(ctx context.Context) (map[string][]string, error) {
	found := map[string][]string{}
	for name, metric := range map[string]string{"instance": "berth_build_info", "gpu": "gpu_speed_multiplier"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/api/v1/label/"+name+"/values?match[]="+metric, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		var said struct{ Data []string }
		err = json.NewDecoder(resp.Body).Decode(&said)
		_ = resp.Body.Close() // it was read
		if err != nil || len(said.Data) == 0 {
			return nil, fmt.Errorf("%s has no values of %s: %s, %w", s.name, name, resp.Status, err)
		}
		found[name] = said.Data
	}
	return found, nil
}

// askWithPromtool asks berth with the tool of Prometheus.
func askWithPromtool(ctx context.Context, promtool, base string, at time.Time) error {
	moment, before := strconv.FormatInt(at.Unix(), 10), strconv.FormatInt(at.Unix()-60, 10)
	var wrong []error
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"query", "instant", base, "up"}, `up{instance=`},
		{[]string{"query", "instant", "--time=" + moment, base, "sum(up)"}, `=> 1 @[`},
		{[]string{"query", "range", "--start=" + before, "--end=" + moment, "--step=15s", base, "sum(up)"}, "1 @["},
		{[]string{"query", "series", "--match=up", base}, `__name__="up"`},
		{[]string{"query", "labels", base, "__name__"}, "gpu_temperature_celsius"},
	} {
		out, err := exec.CommandContext(ctx, promtool, c.args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			wrong = append(wrong, fmt.Errorf("promtool %s: %w: %s", strings.Join(c.args, " "), err, out))
		}
	}
	if len(wrong) == 0 {
		fmt.Println("promtool asked berth about a moment, a time, series and labels")
	}
	return errors.Join(wrong...)
}
