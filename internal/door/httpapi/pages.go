package httpapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/problems"
)

// mostListed is the largest number of entries in an answer.
const mostListed = 10_000

// Page is the part of a list that a caller wants. The previous answer says where it
// begins: its cursor names the last entry by a key that does not change, so that
// entries that come and go neither repeat nor hide others.
type Page struct {
	Limit int    `query:"limit" minimum:"1" maximum:"10000" doc:"Return at most this many entries. Without it, an answer has everything, up to 10,000 entries. next says how to get the rest."`
	After string `query:"after" maxLength:"4096" doc:"The next of the answer before, as it is."`
	Address
}

// Address is the address of a request.
type Address struct{ url url.URL }

// Resolve stores the address of the request.
func (a *Address) Resolve(ctx huma.Context) []error {
	a.url = ctx.URL()
	return nil
}

// next returns the Link header with the address of the page after a cursor, or "" if
// there is none.
func (a *Address) next(after string) string {
	if after == "" {
		return ""
	}
	query := a.url.Query()
	query.Set("after", after)
	return "<" + a.url.Path + "?" + query.Encode() + `>; rel="next"`
}

// most returns the largest number of entries in the answer.
func (p *Page) most() int { return cmp.Or(p.Limit, mostListed) }

// The lists that have pages. A cursor of one list is not valid for another.
const (
	leasesList       = "leases"
	pastList         = "past"
	batchesList      = "batches"
	measurementsList = "measurements"
	orphansList      = "orphans"
	tokensList       = "tokens"
	sessionsList     = "sessions"
	jobsList         = "jobs"
	usersList        = "users"
)

// cursor is the content of next, as JSON in base64 because nobody needs to read it.
type cursor struct {
	List string          `json:"list"`
	Last json.RawMessage `json:"last"` // the key of the last entry
}

// resume decodes the key after which the page begins. It returns false for the first
// page.
func (p *Page) resume(list string, into any) (bool, error) {
	if p.After == "" {
		return false, nil
	}
	var c cursor
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil && c.List == list {
		err = json.Unmarshal(c.Last, into)
	}
	switch {
	case err != nil:
		return false, wrongCursor("is not the next of an answer: send that text as it is, or leave after out to begin again")
	case c.List != list:
		return false, wrongCursor("is the next of another list, or of a daemon that has restarted since: leave after out to begin again")
	}
	return true, nil
}

func wrongCursor(detail string) *api.Problem {
	p := problems.New(http.StatusUnprocessableEntity, "invalid_request", "The list cannot go on from there.")
	p.Fields = []api.FieldProblem{{Field: "after", Detail: detail}}
	return p
}

// more returns the continuation of a list after the entry with key last.
func (p *Page) more(list string, last any) api.More {
	key, err := json.Marshal(last)
	if err != nil {
		panic(err) // cannot happen: keys are numbers and text
	}
	text, _ := json.Marshal(cursor{List: list, Last: key})
	m := api.More{Next: base64.RawURLEncoding.EncodeToString(text)}
	if p.Limit == 0 {
		m.Note = "The list goes on: ask again with after and the text in next."
	}
	return m
}

// listed is an answer with part of a list.
type listed[T any] struct {
	Link string `header:"Link" doc:"The address of the next page, with rel=\"next\". Absent: this is the end."`
	Body T
}

// answerPage returns part of a list with the address of the next page.
func answerPage[T any](p *Page, m api.More, body T) (*listed[T], error) {
	return &listed[T]{Link: p.next(m.Next), Body: body}, nil
}

// cut returns a page of a list: the first of the entries that come after the cursor in
// the order of their keys. The entries keep the order of the list.
func cut[T, K any](p *Page, list string, most int, all []T, key func(T) K, compare func(a, b K) int) ([]T, api.More, error) {
	var after K
	resumed, err := p.resume(list, &after)
	if err != nil {
		return nil, api.More{}, err
	}
	if resumed {
		all = slices.DeleteFunc(all, func(each T) bool { return compare(key(each), after) <= 0 })
	}
	if len(all) <= most {
		return all, api.More{}, nil
	}
	keys := make([]K, len(all))
	for i, each := range all {
		keys[i] = key(each)
	}
	slices.SortFunc(keys, compare)
	last := keys[most-1]
	return slices.DeleteFunc(all, func(each T) bool { return compare(key(each), last) > 0 }), p.more(list, last), nil
}

// hide returns a key that does not reveal its content: callers may not see the process
// ids and users of others. The key is valid until the daemon restarts.
func hide[T comparable](s *server, key T) uint64 { return maphash.Comparable(s.seed, key) }

// thisRun returns the name of a list whose keys are valid until the daemon restarts.
func (s *server) thisRun(list string) string {
	return list + "-" + strconv.FormatUint(maphash.String(s.seed, list), 36)
}
