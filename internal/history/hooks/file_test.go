package hooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

// refuse is a receiver that is away, for good.
func refuse() *receiver {
	return &receiver{answer: always(503)}
}

// texts are the texts of the events that a receiver got, in order and each
// once.
func (r *receiver) texts() (list []string) {
	for _, body := range r.bodies() {
		_, text, _ := strings.Cut(body, `"text":"`)
		text, _, _ = strings.Cut(text, `"`)
		if len(list) == 0 || list[len(list)-1] != text {
			list = append(list, text)
		}
	}
	return list
}

// What was not delivered when the daemon stops is delivered after its next
// start, as it was and in order; then nothing is left of it.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.json")
	synctest.Test(t, func(t *testing.T) {
		away := refuse()
		b := runFile(t, path, 16, away, Hook{Name: "pager", URL: "http://x/"})
		for i := range 3 {
			b.publish(gpu.EventCritical, gpu.Serious, string(rune('a'+i)))
		}
		synctest.Wait()
		b.stop()
		kept, _ := b.log.Kept(0)
		first := away.bodies()[0]

		back := &receiver{answer: always(200)}
		b = runFile(t, path, 16, back, Hook{Name: "pager", URL: "http://x/"})
		b.publish(gpu.EventCritical, gpu.Serious, "d")
		synctest.Wait()
		b.stop()
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, back.texts()); diff != "" {
			t.Error(diff)
		}
		if got := back.bodies()[0]; got != first || !strings.Contains(got, fmt.Sprintf(`"id":%d,`, kept[0].ID)) {
			t.Errorf("it became %s", got)
		}
		err := file.NewState[json.RawMessage](path, file.StateOptions{}).Read(func(text json.RawMessage) error {
			if string(text) != `{"version":1,"hooks":null}` {
				t.Errorf("the file holds %s", text)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A daemon that is killed loses no more than the last second.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.json")
	synctest.Test(t, func(t *testing.T) {
		b := runFile(t, path, 4, refuse(), Hook{Name: "pager", URL: "http://x/"}, Hook{Name: "other", URL: "http://x/", Codes: []gpu.EventCode{gpu.EventExpired}})
		for i := range 10 {
			b.publish(gpu.EventCritical, gpu.Serious, string(rune('a'+i)))
			synctest.Wait()
		}
		time.Sleep(writeAfter + time.Millisecond)
		synctest.Wait()
		back := &receiver{answer: always(200)}
		next := runFile(t, path, 4, back, Hook{Name: "pager", URL: "http://x/"}) // as if the first were not there any more
		synctest.Wait()
		next.stop()
		want := []string{"a", "5 events were not sent to this hook, 5 of them warnings or worse: it is too slow, and its queue was full.", "g", "h", "i", "j"}
		if diff := cmp.Diff(want, back.texts()); diff != "" {
			t.Error(diff)
		}
	})
}

// What is delivered at once is never written.
func TestNothingIsWrittenWhileAllIsWell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.json")
	synctest.Test(t, func(t *testing.T) {
		b := runFile(t, path, 16, &receiver{answer: always(200)}, Hook{Name: "pager", URL: "http://x/"})
		for range 100 {
			b.publish(gpu.EventCritical, gpu.Serious, "hot")
			time.Sleep(7 * writeAfter / 10) // no write is due in the moment of an event
		}
		b.stop()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("there is a file, or %v", err)
		}
	})
}

// What waits for many hooks that are all away still fits into the file.
func TestManyHooksAreAway(t *testing.T) {
	list := make([]Hook, 24)
	for i := range list {
		list[i] = Hook{Name: fmt.Sprint(i), URL: "http://x/", Severity: gpu.Note}
	}
	hs := New(Options{Hooks: list, File: filepath.Join(t.TempDir(), "hooks.json"), Call: func(Hook) Call { return nil }, Dropped: func(string) {}})
	for id := range uint64(2048) {
		e := event(id, gpu.EventDeviceLost, strings.Repeat("x", 4000))
		e.Severity = []gpu.Severity{gpu.Note, gpu.Warning}[id%2]
		for _, q := range hs.queues {
			q.waiting.add(e)
		}
	}
	if err := hs.write(); err != nil {
		t.Error(err)
	}
}

// A disk that refuses is complained of once, and costs no delivery.
func TestDiskThatRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later", "hooks.json")
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(n int, r *http.Request) (int, http.Header, error) {
			if strings.HasSuffix(r.URL.Path, "away") {
				return 503, nil, nil
			}
			return 200, nil, nil
		}}
		b := runFile(t, path, 16, r, Hook{Name: "away", URL: "http://x/away"}, Hook{Name: "there", URL: "http://x/there"})
		for range 20 {
			b.publish(gpu.EventCritical, gpu.Serious, "hot")
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		b.mu.Lock()
		if b.counts[Delivered] != 20 || len(b.wrong) != 1 {
			t.Errorf("counted %v, complained %v", b.counts, b.wrong)
		}
		b.mu.Unlock()
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		text, err := os.ReadFile(path)
		if err != nil || strings.Count(string(text), `"hot"`) != 17 { // the one that is tried, and a full queue
			t.Errorf("the file holds %s, %v", text, err)
		}
		b.stop()
	})
}

func TestDamagedFile(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "{", "another version": `{"version":2}`, "another shape": `{"version":1,"hooks":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hooks.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			b := runFile(t, path, 16, &receiver{answer: always(200)}, Hook{Name: "pager", URL: "http://x/"})
			b.stop()
			if b.damage == nil {
				t.Fatal("nobody is told")
			}
			if aside, err := os.ReadFile(b.damage.Aside); err != nil || string(aside) != text {
				t.Errorf("put aside %q, %v", aside, err)
			}
		})
	}
}

// A command that was begun is not run again after a restart.
func TestCommandsAreNotRunAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hooks.json")
	hook := Hook{Name: "mail", Command: []string{"sh", "-c", `echo "$BERTH_EVENT_TEXT" >> "$1/got"; [ "$BERTH_EVENT_TEXT" != c ]`, "sh", dir}}
	b := runFile(t, path, 16, nil, hook)
	for _, text := range []string{"a", "b", "c"} {
		b.publish(gpu.EventCritical, gpu.Serious, text)
	}
	b.settle(3)
	b.stop()
	b = runFile(t, path, 16, nil, hook)
	b.stop()
	got, err := os.ReadFile(filepath.Join(dir, "got"))
	if err != nil || string(got) != "a\nb\nc\n" {
		t.Errorf("ran for %q, %v", got, err)
	}
}
