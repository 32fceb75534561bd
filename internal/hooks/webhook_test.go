package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

func TestDelivery(t *testing.T) {
	url, deliveries := listen(t, accept)
	b := run(t, 16, nil, Hook{Name: "pager", URL: url + "/hook", Secret: "hush", Severity: gpu.Warning})
	b.publish(gpu.EventGranted, gpu.Note, "not for this hook")
	b.publish(gpu.EventThrottle, gpu.Warning, "slower")
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
	first, second := <-deliveries, <-deliveries
	b.stop()

	kept, _ := b.log.Kept(0)
	for i, d := range []delivery{first, second} {
		want, _ := json.Marshal(kept[i+1])
		if diff := cmp.Diff(string(want), string(d.body)); diff != "" {
			t.Errorf("delivery %d is not the event (-want +got):\n%s", i, diff)
		}
		mac := hmac.New(sha256.New, []byte("hush"))
		mac.Write([]byte(d.header.Get("Berth-Timestamp") + "." + string(d.body)))
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); d.header.Get("Berth-Signature") != want {
			t.Errorf("delivery %d is signed %s, not %s", i, d.header.Get("Berth-Signature"), want)
		}
	}
	if first.header.Get("Berth-Delivery") == second.header.Get("Berth-Delivery") {
		t.Error("two deliveries have one id")
	}
	for name, want := range map[string]string{
		"Berth-Event": "throttle", "Berth-Host": "node7", "User-Agent": "berth/1.2.3", "Content-Type": "application/json",
	} {
		if got := first.header.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
}

func TestWithoutASecretNothingIsSigned(t *testing.T) {
	url, deliveries := listen(t, accept)
	b := run(t, 16, nil, Hook{Name: "pager", URL: url})
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
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
	b := run(t, 16, nil, Hook{Name: "near", URL: url + "/near"})
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
	if before, after := <-deliveries, <-deliveries; string(before.body) != string(after.body) {
		t.Errorf("%s became %s", before.body, after.body)
	}
	b.settle(1)
	b.stop()
	if b.counts[Delivered] != 1 {
		t.Errorf("counted %v", b.counts)
	}

	b = run(t, 16, nil, Hook{Name: "far", URL: url + "/far"})
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
	<-deliveries
	b.settle(1)
	b.stop()
	if len(strays) != 0 || b.counts[Failed] != 1 {
		t.Errorf("%d went elsewhere, counted %v", len(strays), b.counts)
	}
	if told := strings.Join(b.texts(), ""); !strings.Contains(told, "set the url to where it leads") || strings.Contains(told, "hush") {
		t.Errorf("told %q", told)
	}
}
