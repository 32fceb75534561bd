package client

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// paged answers requests with one page after the other, and keeps what was asked.
func paged(t *testing.T, asked *[]string, pages ...string) *Client {
	return newClient(t, func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RequestURI())
		_, _ = w.Write([]byte(pages[min(len(*asked), len(pages))-1]))
	})
}

func TestLeasesFollowsThePages(t *testing.T) {
	var asked []string
	c := paged(t, &asked,
		`{"leases":[{"id":"a","holder":{"user":"ann"}}],"waiting":[],"next":"x","note":"The list goes on."}`,
		`{"leases":[],"waiting":[{"id":"b","position":2,"holder":{"user":"ann"}},{"id":"b","position":3,"holder":{"user":"bob"}},{"id":"p","for":"resume","position":4,"holder":{"user":"ann"}}],"next":"y"}`,
		`{"leases":[{"id":"b","holder":{"user":"ann"}},{"id":"p","state":"parked","holder":{"user":"ann"}}],"waiting":[{"id":"d","position":1,"holder":{"user":"ann"}}]}`)
	all, err := c.Leases(t.Context())
	ann, bob := api.Holder{User: "ann"}, api.Holder{User: "bob"}
	want := api.Leases{
		Leases:  []api.Lease{{ID: "a", Holder: ann}, {ID: "b", Holder: ann}, {ID: "p", State: "parked", Holder: ann}},
		Waiting: []api.Waiting{{ID: "d", Position: 1, Holder: ann}, {ID: "b", Position: 3, Holder: bob}, {ID: "p", For: "resume", Position: 4, Holder: ann}},
	}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, %v", all, err)
	}
	if want := []string{"/api/leases", "/api/leases?after=x", "/api/leases?after=y"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %q", asked)
	}
}

func TestLeasePages(t *testing.T) {
	var asked []string
	c := paged(t, &asked, `{"leases":[{"id":"a"}],"next":"x"}`, `{"leases":[{"id":"b"}],"next":"y"}`)
	for page, err := range c.LeasePages(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if page.Leases[0].ID == "b" {
			break // and asks for no more
		}
	}
	if want := []string{"/api/leases?limit=1", "/api/leases?after=x&limit=1"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %q", asked)
	}
}

func TestOtherListsFollowThePages(t *testing.T) {
	var asked []string
	if all, err := paged(t, &asked, `{"batches":[{"id":"a"}],"next":"x"}`, `{"batches":[{"id":"b"}]}`).Batches(t.Context()); err != nil || len(all.Batches) != 2 || all.Next != "" {
		t.Errorf("%+v, %v", all, err)
	}
	asked = nil
	if all, err := paged(t, &asked, `{"tokens":[{"name":"a"}],"next":"x"}`, `{"tokens":[{"name":"b"}]}`).Tokens(t.Context()); err != nil || len(all.Tokens) != 2 || all.Next != "" {
		t.Errorf("%+v, %v", all, err)
	}
	asked = nil
	if all, err := paged(t, &asked, `{"orphans":[{"pid":1}],"next":"x"}`, `{"foreign":[{"pid":2}]}`).Orphans(t.Context()); err != nil || len(all.Orphans) != 1 || len(all.Foreign) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	asked = nil
	if all, err := paged(t, &asked, `{"measurements":[{"name":"a"}],"next":"x"}`, `{"measurements":[{"name":"b"}]}`).Measurements(t.Context()); err != nil || len(all.Measurements) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A list that breaks off is an error, and not a shorter list.
func TestPagesThatFail(t *testing.T) {
	var asked []string
	all, err := paged(t, &asked, `{"leases":[{"id":"a"}],"next":"x"}`, `{"leases":`).Leases(t.Context())
	if err == nil || len(all.Leases) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	asked = nil
	_, err = paged(t, &asked, `{"leases":[{"id":"a"}],"next":"x"}`).Leases(t.Context())
	if err == nil || !strings.Contains(err.Error(), "over and over") || len(asked) != 2 {
		t.Errorf("%v after %d pages", err, len(asked))
	}
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"code":"not_allowed"}`))
	})
	problem := (*api.Problem)(nil)
	if _, err := c.Tokens(t.Context()); !errors.As(err, &problem) || problem.Code != "not_allowed" {
		t.Errorf("%v", err)
	}
}
