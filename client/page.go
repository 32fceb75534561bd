package client

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"strconv"
)

// pages asks for a list, page after page. The first request has no parameters except
// those of the query, so that daemons without pages answer it too. next returns where the
// list goes on after a page.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values, next func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		for after := ""; ; {
			page, err := get[T](ctx, c, path, query)
			if !yield(page, err) || err != nil {
				return
			}
			last := after
			if after = next(page); after == "" {
				return
			}
			if after == last {
				var none T
				yield(none, fmt.Errorf("GET %s: the daemon answers with the same page over and over", path))
				return
			}
			if query == nil {
				query = url.Values{}
			}
			query.Set("after", after)
		}
	}
}

// whole returns all pages of a list as one. add appends a page to the list.
func whole[T any](ctx context.Context, c *Client, path string, next func(T) string, add func(all *T, page T)) (T, error) {
	var all T
	first := true
	for page, err := range pages(ctx, c, path, nil, next) {
		switch {
		case err != nil:
			var none T
			return none, err
		case first:
			all, first = page, false
		default:
			add(&all, page)
		}
	}
	return all, nil
}

// limited returns a query with a limit, or without one if limit is 0.
func limited(query url.Values, limit int) url.Values {
	if limit == 0 {
		return query
	}
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(limit))
	return query
}
