package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// server is something that answers as Prometheus does.
type server struct{ name, base string }

// answer is the points of each series, by the labels that both servers give it.
type answer map[string][]point

type point struct {
	at    float64
	value float64
}

// instant asks about one moment.
func (s server) instant(ctx context.Context, expr string, at time.Time) (answer, error) {
	return s.ask(ctx, "/api/v1/query", url.Values{"query": {expr}, "time": {strconv.FormatInt(at.Unix(), 10)}})
}

// over asks about the last minute before a moment.
func (s server) over(ctx context.Context, expr string, at time.Time) (answer, error) {
	return s.ask(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {strconv.FormatInt(at.Unix()-60, 10)}, "end": {strconv.FormatInt(at.Unix(), 10)}, "step": {"10s"},
	})
}

func (s server) ask(ctx context.Context, path string, form url.Values) (answer, error) {
	var said struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := s.call(ctx, path, form, &said); err != nil {
		return nil, err
	}
	if said.ResultType == "scalar" || said.ResultType == "string" {
		said.Result = json.RawMessage(`[{"metric":{},"value":` + string(said.Result) + `}]`)
	}
	var list []struct {
		Metric map[string]string
		Value  *[2]any
		Values [][2]any
	}
	if err := json.Unmarshal(said.Result, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	found := answer{}
	for _, one := range list {
		if one.Value != nil {
			one.Values = append(one.Values, *one.Value)
		}
		key := keyOf(one.Metric)
		for _, pair := range one.Values {
			at, _ := pair[0].(float64)
			text, _ := pair[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			found[key] = append(found[key], point{at, value})
		}
	}
	return found, nil
}

// call posts a form and reads the field data of the answer.
func (s server) call(ctx context.Context, path string, form url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said := struct {
		Status, ErrorType, Error string
		Data                     any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		return fmt.Errorf("%s answers %s: %w", s.name, resp.Status, err)
	}
	if said.Status != "success" || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s: %s", s.name, resp.Status, said.ErrorType, said.Error)
	}
	return nil
}

// keyOf writes labels, except for those that every server chooses itself.
func keyOf(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "job" && name != "instance" {
			fmt.Fprintf(&b, "%s=%q ", name, labels[name])
		}
	}
	return b.String()
}
