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

// Web sends events to web addresses.
type Web struct {
	host   string
	agent  string
	client *http.Client
}

// NewWeb returns a Web that names this machine and this version of berth to receivers. If
// transport is nil, it uses the network.
func NewWeb(host, version string, transport http.RoundTripper) *Web {
	if transport == nil {
		network := http.DefaultTransport.(*http.Transport).Clone()
		network.MaxIdleConnsPerHost = 1
		transport = network
	}
	return &Web{host: host, agent: "berth/" + version, client: &http.Client{Transport: transport, CheckRedirect: nearby}}
}

// Close closes the connections that are not in use.
func (w *Web) Close() { w.client.CloseIdleConnections() }

// nearby follows a redirect only if the same host gets the same request. Otherwise it
// returns the answer unchanged: events are only for the host that the configuration
// names.
func nearby(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || r.Method != first.Method || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// passing is a temporary failure, so another attempt may succeed.
type passing struct {
	error
	after time.Duration // how long the receiver asked to wait; 0 if it did not say
}

func (p *passing) Unwrap() error { return p.error }

// Call returns a function that sends one event to an address, signed with the secret
// unless it is empty.
func (w *Web) Call(address, secret string) Call {
	return func(ctx context.Context, e gpu.Event, body []byte) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
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
		if secret != "" {
			request.Header.Set("Berth-Signature", "sha256="+sign(secret, now, body))
		}
		answer, err := w.client.Do(request)
		if err != nil {
			return &passing{error: withoutAddress(err)}
		}
		defer answer.Body.Close()
		_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // a connection is reused only after its answer was read
		return judge(answer)
	}
}

// sign returns the signature of a delivery.
func sign(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// judge returns nil if the answer means that the event was delivered.
func judge(answer *http.Response) error {
	code := answer.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return &passing{fmt.Errorf("the answer was %s", answer.Status), retryAfter(answer.Header.Get("Retry-After"))}
	case code >= 300 && code < 400:
		return fmt.Errorf("the answer was %s, a redirect: set url to the address that it redirects to", answer.Status)
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

// withoutAddress returns an error without the address, which may hold a key.
func withoutAddress(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer within timeout_seconds")
	}
	if named := (*url.Error)(nil); errors.As(err, &named) {
		return named.Err
	}
	return err
}
