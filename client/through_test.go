package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
)

func throughRequest(t *testing.T, ctx context.Context, f http.HandlerFunc) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/path?q=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return (&http.Client{Transport: Through(f)}).Do(req)
}

func TestThroughStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		resp, err := throughRequest(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Asked", r.RequestURI)
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("X-Asked", "too late")
			_, _ = io.WriteString(w, "one\n")
			<-goOn
			_, _ = io.WriteString(w, "two\n")
		})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-Asked") != "/path?q=1" {
			t.Errorf("status %d, header %v", resp.StatusCode, resp.Header)
		}
		lines := bufio.NewScanner(resp.Body)
		if !lines.Scan() || lines.Text() != "one" {
			t.Fatalf("first line %q", lines.Text())
		}
		close(goOn) // only now: the first line came while the handler still ran
		if !lines.Scan() || lines.Text() != "two" || lines.Scan() || lines.Err() != nil {
			t.Errorf("rest %q, error %v", lines.Text(), lines.Err())
		}
	})
}

func TestThroughSilentHandler(t *testing.T) {
	resp, err := throughRequest(t, t.Context(), func(http.ResponseWriter, *http.Request) {})
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("response %v, error %v", resp, err)
	}
	if body, err := io.ReadAll(resp.Body); len(body) != 0 || err != nil {
		t.Errorf("body %q, error %v", body, err)
	}
	_ = resp.Body.Close()
}

// Whoever gives up must free both sides; the bubble panics if one is left.
func TestThroughGivesUp(t *testing.T) {
	stuck := func(w http.ResponseWriter, r *http.Request) {
		for { // ends when nobody reads any more, not before
			if _, err := io.WriteString(w, "more\n"); err != nil {
				return
			}
		}
	}
	t.Run("the reader closes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			resp, err := throughRequest(t, t.Context(), stuck)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			synctest.Wait()
		})
	})
	t.Run("the context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := throughRequest(t, ctx, stuck)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			cancel()
			if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("before the answer begins", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := throughRequest(t, ctx, func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				<-r.Context().Done()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	})
}

// A handler breaks an answer off as in a server, and the process goes on.
func TestThroughBreaksOff(t *testing.T) {
	for _, text := range []string{"", "the first half"} {
		resp, err := throughRequest(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
			if text != "" {
				_, _ = io.WriteString(w, text)
			}
			panic(http.ErrAbortHandler)
		})
		var got []byte
		if err == nil {
			got, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if string(got) != text || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %q: read %q, error %v", text, got, err)
		}
	}
}
