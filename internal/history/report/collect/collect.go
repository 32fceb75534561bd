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
	measured, err := begin(ctx, c.QueryRange, *period)
	if err != nil {
		return api.Report{}, err
	}
	if measured.From.After(period.From) {
		answers.Remarks = append(answers.Remarks, "Nothing was measured before: the report is of the time since "+measured.From.In(period.From.Location()).Format("2 January 2006, 15:04")+".")
	}
	if err := ask(ctx, c, measured, &answers); err != nil {
		return api.Report{}, err
	}
	all := report.Make(answers, now)
	all.Period = report.MakePeriod(&answers, measured)
	all.Advice = append(all.Advice, report.AdvicePeriod(all.Period)...)
	return all, nil
}

// asker asks the store of the past, as client.Client.QueryRange does.
type asker func(ctx context.Context, expr string, over client.QueryRange) (api.QueryResult, error)

// begin cuts off the part of a period before the first measurement, so that pictures show
// what there is. It does not if that is little, or if it cannot ask.
func begin(ctx context.Context, ask asker, p report.Period) (report.Period, error) {
	first := p
	for range 3 { // again within the steps that the one before found
		q := first.Questions()[0]
		answer, err := ask(ctx, q.Expr, client.QueryRange{From: q.From, To: q.Until, Step: q.Step})
		if problem := (*api.Problem)(nil); errors.As(err, &problem) {
			return p, nil // who asks for the rest says it
		}
		if err != nil {
			return p, err
		}
		found := time.Time{}
		for _, each := range answer.Series {
			for _, point := range each.Points {
				if point.Value > 0 && (found.IsZero() || point.Time.Before(found)) {
					found = point.Time
				}
			}
		}
		if found.IsZero() {
			return p, nil
		}
		first = report.Period{From: found.Add(-2 * q.Step), Until: found} // two: the first sample may be in the step before
	}
	if least := p.Until.Add(-Least); first.From.After(least) {
		first.From = least
	}
	if first.From.Sub(p.From) > p.Until.Sub(p.From)/50 {
		p.From = first.From.In(p.From.Location())
	}
	return p, nil
}

// ask asks the store of the past for the data of a period. Without a store, the report
// covers the samples of the last minutes, and says so.
func ask(ctx context.Context, c *client.Client, p report.Period, a *report.Answers) error {
	found := map[string][]api.QuerySeries{}
	for _, q := range p.Questions() {
		answer, err := c.QueryRange(ctx, q.Expr, client.QueryRange{From: q.From, To: q.Until, Step: q.Step})
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
			found[q.Name] = append(found[q.Name], answer.Series...)
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
