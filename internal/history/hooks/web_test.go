package hooks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
)

// delivery is a request as a real server saw it.
type delivery struct {
	header http.Header
	body   []byte
}

func listen(t *testing.T, answer http.HandlerFunc) (string, <-chan delivery) {
	t.Helper()
	deliveries := make(chan delivery, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		deliveries <- delivery{r.Header.Clone(), body}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, deliveries
}

func accept(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }

func event(id uint64, code gpu.EventCode, text string) gpu.Event {
	return gpu.Event{
		ID: id, Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Code: code, Severity: gpu.Serious,
		GPU: "GPU-a", Lease: "job", Text: text, Data: map[string]any{"n": 1.0},
	}
}

// send makes one attempt to deliver an event to an address.
func send(t *testing.T, url, secret string, e gpu.Event) error {
	t.Helper()
	w := NewWeb("node7", "1.2.3", nil)
	defer w.Close()
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return w.Call(url, secret)(t.Context(), e, body)
}

func TestDelivery(t *testing.T) {
	url, deliveries := listen(t, accept)
	sent := []gpu.Event{event(7, gpu.EventThrottle, "slower"), event(8, gpu.EventCritical, "hot")}
	var seen []delivery
	for _, e := range sent {
		if err := send(t, url+"/hook", "hush", e); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, <-deliveries)
	}
	for i, d := range seen {
		want, _ := json.Marshal(sent[i])
		if diff := cmp.Diff(string(want), string(d.body)); diff != "" {
			t.Errorf("delivery %d is not the event (-want +got):\n%s", i, diff)
		}
		mac := hmac.New(sha256.New, []byte("hush"))
		mac.Write([]byte(d.header.Get("Berth-Timestamp") + "." + string(d.body)))
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); d.header.Get("Berth-Signature") != want {
			t.Errorf("delivery %d is signed %s, not %s", i, d.header.Get("Berth-Signature"), want)
		}
	}
	if seen[0].header.Get("Berth-Delivery") == seen[1].header.Get("Berth-Delivery") {
		t.Error("two deliveries have one id")
	}
	for name, want := range map[string]string{
		"Berth-Event": "throttle", "Berth-Host": "node7", "User-Agent": "berth/1.2.3", "Content-Type": "application/json",
	} {
		if got := seen[0].header.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
}

func TestWithoutASecretNothingIsSigned(t *testing.T) {
	url, deliveries := listen(t, accept)
	if err := send(t, url, "", event(7, gpu.EventCritical, "hot")); err != nil {
		t.Fatal(err)
	}
	if d := <-deliveries; d.header.Get("Berth-Signature") != "" {
		t.Errorf("signed %s", d.header.Get("Berth-Signature"))
	}
}

func TestRedirects(t *testing.T) {
	elsewhere, strays := listen(t, accept)
	url, deliveries := listen(t, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/near": "/here", "/far": elsewhere + "/hush"}[r.URL.Path]
		if to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	})
	if err := send(t, url+"/near", "", event(7, gpu.EventCritical, "hot")); err != nil {
		t.Error(err)
	}
	if before, after := <-deliveries, <-deliveries; string(before.body) != string(after.body) {
		t.Errorf("%s became %s", before.body, after.body)
	}
	err := send(t, url+"/far", "", event(8, gpu.EventCritical, "hot"))
	<-deliveries
	if len(strays) != 0 || err == nil || !strings.Contains(err.Error(), "set url to the address that it redirects to") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%d went elsewhere, with %v", len(strays), err)
	}
}

// answers is a network with one answer.
type answers struct {
	status int
	after  string
	err    error
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Header: http.Header{"Retry-After": {a.after}}, Request: r, Body: io.NopCloser(strings.NewReader("")),
	}, nil
}

// The error of an attempt says whether another one may succeed, and not where
// it went.
func TestFailuresThatMayPass(t *testing.T) {
	for _, c := range []struct {
		answers
		passes bool
		wait   time.Duration
	}{
		{answers{status: 400}, false, 0}, {answers{status: 404}, false, 0}, {answers{status: 302}, false, 0},
		{answers{status: 408}, true, 0}, {answers{status: 429, after: "120"}, true, 2 * time.Minute}, {answers{status: 503}, true, 0},
		{answers{err: errors.New("connection refused")}, true, 0}, {answers{err: context.DeadlineExceeded}, true, 0},
	} {
		err := NewWeb("", "", c.answers).Call("http://x/hush", "")(t.Context(), gpu.Event{}, nil)
		may := (*passing)(nil)
		if err == nil || errors.As(err, &may) != c.passes || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %v", c.answers, err)
		}
		if c.passes && may.after != c.wait {
			t.Errorf("%+v: wait %v", c.answers, may.after)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for header, want := range map[string]time.Duration{
			"": 0, "soon": 0, "-5": 0, "7": 7 * time.Second, time.Now().Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute,
		} {
			if got := retryAfter(header); got != want {
				t.Errorf("%q: %v", header, got)
			}
		}
	})
}
