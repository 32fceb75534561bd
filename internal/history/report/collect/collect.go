// Package collect asks a daemon for what a report needs, with the rights of whoever asks.
package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/report"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Usual is the length of a period for which nobody gives one, and Least and Longest are
// the bounds of a period.
const (
	Usual   = 7 * 24 * time.Hour
	Least   = time.Minute
	Longest = 3 * 366 * 24 * time.Hour
)

// Report makes the report of a period, or of the last minutes if period is nil.
func Report(ctx context.Context, c *client.Client, period *report.Period, now time.Time) (api.Report, error) {
	answers, err := everything(ctx, c, now)
	if err != nil {
		return api.Report{}, err
	}
	if period == nil {
		return report.Make(answers, now), nil
	}
	if err := ask(ctx, c, *period, &answers); err != nil {
		return api.Report{}, err
	}
	all := report.Make(answers, now)
	all.Period = report.MakePeriod(&answers, *period)
	all.Advice = append(all.Advice, report.AdvicePeriod(all.Period)...)
	return all, nil
}

// ask asks the store of the past for the data of a period. Without a store, the report
// covers the samples of the last minutes, and says so.
func ask(ctx context.Context, c *client.Client, p report.Period, a *report.Answers) error {
	found := map[string][]api.QuerySeries{}
	for _, q := range p.Questions() {
		answer, err := c.QueryRange(ctx, q.Expr, client.QueryRange{From: q.From, To: p.Until, Step: q.Step})
		problem := (*api.Problem)(nil)
		switch {
		case errors.As(err, &problem) && problem.Status == http.StatusNotFound:
			a.Remarks = append(a.Remarks, words.UpperFirst(cmp.Or(problem.Detail, problem.Title))+". Loads, temperatures and power are of the last minutes.")
			return nil
		case errors.As(err, &problem) && problem.Status != http.StatusUnauthorized && problem.Status != http.StatusForbidden:
			a.Remarks = append(a.Remarks, fmt.Sprintf("The part %q is missing: %s.", q.Name, cmp.Or(problem.Detail, problem.Title)))
		case err != nil:
			return err
		default:
			found[q.Name] = answer.Series
		}
	}
	a.Series = found
	return nil
}

// reported is how far back a report reads the samples of devices.
const reported = 10 * time.Minute

// everything asks for everything that a report needs.
func everything(ctx context.Context, c *client.Client, now time.Time) (report.Answers, error) {
	a := report.Answers{History: map[string][]gpu.Sample{}}
	var err error
	if a.Status, err = c.StatusAll(ctx); err != nil {
		return a, err
	}
	for _, d := range a.Status.GPUs {
		history, err := c.History(ctx, client.HistoryQuery{GPU: d.Device.UUID, Since: now.Add(-reported)})
		if err != nil {
			return a, err
		}
		a.History[d.Device.UUID] = history.Samples
	}
	if a.Available, err = c.Available(ctx); err != nil {
		return a, err
	}
	if a.Leases, err = c.Leases(ctx); err != nil {
		return a, err
	}
	if a.Past, err = c.PastLeases(ctx, client.PastQuery{Limit: 2000}); err != nil {
		return a, err
	}
	if a.Measurements, err = c.Measurements(ctx); err != nil {
		return a, err
	}
	a.Energy, err = c.Energy(ctx)
	if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Status == http.StatusNotFound {
		err = nil // the daemon is older
	}
	return a, err
}
