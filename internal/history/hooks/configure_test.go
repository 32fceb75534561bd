package hooks

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
)

// byHost is a receiver that notes the texts that each host accepts; those that
// are away answer 503.
func byHost(away *map[string]bool) (*receiver, func(host string) string) {
	got := map[string][]string{}
	r := &receiver{}
	r.answer = func(n int, request *http.Request) (int, http.Header, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		host := request.URL.Host
		if (*away)[host] {
			return 503, nil, nil
		}
		_, text, _ := strings.Cut(r.attempts[n].body, `"text":"`)
		text, _, _ = strings.Cut(text, `"`)
		got[host] = append(got[host], text)
		return 200, nil, nil
	}
	return r, func(host string) string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Join(got[host], "")
	}
}

// Hooks come, go and change while events are delivered; a hook that stays loses
// nothing.
func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := map[string]bool{"old": true, "going": true}
		r, got := byHost(&away)
		staying, moving, going, coming := Hook{Name: "staying", URL: "http://staying/"}, Hook{Name: "moving", URL: "http://old/"}, Hook{Name: "going", URL: "http://going/"}, Hook{Name: "coming", URL: "http://coming/"}
		b := run(t, 16, r, staying, moving, going)
		b.publish(gpu.EventCritical, gpu.Serious, "a")
		b.publish(gpu.EventCritical, gpu.Serious, "b")
		time.Sleep(2 * time.Minute) // both are tried again and again

		moving.URL = "http://new/"
		list := []Hook{coming, moving, staying}
		complete(list)
		before := time.Now()
		b.hooks.Configure(list)
		synctest.Wait()
		if got("new") != "ab" || time.Now() != before {
			t.Errorf("the new address got %q after %v", got("new"), time.Since(before))
		}
		b.publish(gpu.EventCritical, gpu.Serious, "c")
		synctest.Wait()
		attempts := len(r.bodies())
		time.Sleep(time.Hour)
		if after := len(r.bodies()); after != attempts {
			t.Errorf("%d attempts for a hook that is gone", after-attempts)
		}
		b.stop()
		for host, want := range map[string]string{"staying": "abc", "new": "abc", "coming": "c", "going": "", "old": ""} {
			if got(host) != want {
				t.Errorf("%s got %q, want %q", host, got(host), want)
			}
		}
	})
}

// A hook that is asked for less does not get what it has waited with.
func TestConfigureWantsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := map[string]bool{"x": true}
		r, got := byHost(&away)
		hook := Hook{Name: "pager", URL: "http://x/"}
		b := run(t, 16, r, hook)
		b.publish(gpu.EventCritical, gpu.Serious, "a")
		b.publish(gpu.EventGranted, gpu.Note, "b")
		b.publish(gpu.EventCritical, gpu.Serious, "c")
		synctest.Wait()
		hook.Severity = gpu.Serious
		list := []Hook{hook}
		complete(list)
		r.mu.Lock()
		delete(away, "x")
		r.mu.Unlock()
		b.hooks.Configure(list)
		synctest.Wait()
		b.stop()
		if got("x") != "ac" {
			t.Errorf("it got %q", got("x"))
		}
	})
}

// A hook that is configured as it was goes on as it was.
func TestConfigureTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := refuse()
		hook := Hook{Name: "pager", URL: "http://x/", Codes: []gpu.EventCode{gpu.EventCritical}}
		b := run(t, 16, r, hook)
		b.publish(gpu.EventCritical, gpu.Serious, "a")
		synctest.Wait()
		for range 100 {
			list := []Hook{{Name: "pager", URL: "http://x/", Codes: []gpu.EventCode{gpu.EventCritical}}}
			complete(list)
			b.hooks.Configure(list)
			synctest.Wait()
		}
		if n := len(r.bodies()); n != 1 {
			t.Errorf("%d attempts", n)
		}
		b.stop()
		if diff := cmp.Diff(map[Status]int{Retried: 1}, b.counts); diff != "" {
			t.Error(diff)
		}
	})
}

// Hooks that are configured while Run ends, or after, disturb nobody.
func TestConfigureAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, 16, &receiver{answer: always(200)}, Hook{Name: "a", URL: "http://x/"})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 100 {
				list := []Hook{{Name: string(rune('a' + i%3)), URL: "http://x/"}}
				complete(list)
				b.hooks.Configure(list)
			}
		}()
		b.stop()
		<-done
	})
}
