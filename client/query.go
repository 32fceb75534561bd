package client

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
)

// QueryRange says which times a question covers.
type QueryRange struct {
	From, To time.Time
	Step     time.Duration // from one point to the next
}

// Query asks a question in PromQL about one time. The zero time means now.
func (c *Client) Query(ctx context.Context, expr string, at time.Time) (api.QueryResult, error) {
	form := url.Values{"query": {expr}}
	if !at.IsZero() {
		form.Set("time", sinceEpoch(at))
	}
	return query(ctx, c, "/api/v1/query", form)
}

// QueryRange asks a question in PromQL about every step of a range.
func (c *Client) QueryRange(ctx context.Context, expr string, over QueryRange) (api.QueryResult, error) {
	return query(ctx, c, "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {sinceEpoch(over.From)}, "end": {sinceEpoch(over.To)},
		"step": {strconv.FormatFloat(over.Step.Seconds(), 'f', -1, 64)},
	})
}

// MetricNames returns the names of the metrics that a question can ask about.
func (c *Client) MetricNames(ctx context.Context) ([]string, error) {
	answer, err := get[struct {
		Data map[string]json.RawMessage `json:"data"`
	}](ctx, c, "/api/v1/metadata", nil)
	return slices.Sorted(maps.Keys(answer.Data)), err
}

// sinceEpoch returns a time in seconds since 1970.
func sinceEpoch(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// query asks a question.
func query(ctx context.Context, c *Client, path string, form url.Values) (api.QueryResult, error) {
	var answer struct { // in the form of Prometheus
		Status, ErrorType, Error, Code string

		Data            api.QueryResult
		Warnings, Infos []string
	}
	err := c.exchange(ctx, http.MethodGet, path, form, nil, func(resp *http.Response) error {
		if resp.StatusCode >= 300 && mediaType(resp) != "application/json" {
			return check(resp)
		}
		if err := decode(resp.Body, &answer); err != nil {
			return err
		}
		if answer.Status != "success" {
			return &api.Problem{
				Type: "about:blank", Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode,
				Code: cmp.Or(answer.Code, answer.ErrorType), Detail: answer.Error,
			}
		}
		return nil
	})
	if err != nil {
		return api.QueryResult{}, err
	}
	answer.Data.Warnings, answer.Data.Infos = answer.Warnings, answer.Infos
	return answer.Data, nil
}
