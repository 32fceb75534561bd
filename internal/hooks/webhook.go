package hooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// webhook sends events to a web address.
type webhook struct {
	hook   Hook
	host   string
	agent  string
	client *http.Client
}

func newWebhook(h Hook, o Options, transport http.RoundTripper) *webhook {
	return &webhook{
		hook: h, host: o.Host, agent: "berth/" + o.Version,
		client: &http.Client{Transport: transport, CheckRedirect: nearby},
	}
}

// nearby follows a redirect only if the same host gets the same request. The
// answer is taken as it is otherwise: events are for whom the configuration
// names.
func nearby(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || r.Method != first.Method || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// send makes one attempt.
func (w *webhook) send(ctx context.Context, e gpu.Event, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.hook.URL, bytes.NewReader(body))
	if err != nil {
		return withoutAddress(err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": w.agent, "Berth-Host": w.host,
		"Berth-Event": string(e.Code), "Berth-Delivery": strconv.FormatUint(e.ID, 10), "Berth-Timestamp": now,
	} {
		request.Header.Set(name, value)
	}
	if w.hook.Secret != "" {
		request.Header.Set("Berth-Signature", "sha256="+sign(w.hook.Secret, now, body))
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return &transient{error: withoutAddress(err)}
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // what is read to its end can be used again
	return judge(answer)
}

// sign is the signature of a delivery.
func sign(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// judge says what an answer means.
func judge(answer *http.Response) error {
	code := answer.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return &transient{fmt.Errorf("the answer was %s", answer.Status), retryAfter(answer.Header.Get("Retry-After"))}
	case code >= 300 && code < 400:
		return fmt.Errorf("the answer was %s, and leads elsewhere: set the url to where it leads", answer.Status)
	}
	return fmt.Errorf("the answer was %s", answer.Status)
}

// retryAfter reads the header, which is a number of seconds or a date.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return time.Until(date)
	}
	return 0
}

// withoutAddress says what went wrong without the address, which may hold a
// key.
func withoutAddress(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer within timeout_seconds")
	}
	if named := (*url.Error)(nil); errors.As(err, &named) {
		return named.Err
	}
	return err
}
