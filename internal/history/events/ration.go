package events

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	// PerMinute is how many warnings about one user are published in a minute.
	PerMinute = 60
	// period is how long a ration is for.
	period = time.Minute
	// rationed is how many users with a login name have a ration of their own,
	// and how many without. All others share one. A person may have tens of
	// thousands of user ids for containers, which have no names: they take no
	// ration from those who have.
	rationed = 1024
)

// Ration limits the warnings that one user can cause. Those about devices and
// the daemon, and notes, are not limited. Its zero value is not usable.
type Ration struct {
	tell func(gpu.Event)

	mu     sync.Mutex
	used   map[string]int // warnings in this period, by user
	named  int            // of them have a login name
	timer  *time.Timer    // ends the period; nil: none has begun
	closed bool
}

// NewRation returns a ration for every user. At the end of a minute in which it
// did not admit warnings, it calls tell with one event for each user that says
// how many.
func NewRation(tell func(gpu.Event)) *Ration {
	return &Ration{tell: tell, used: map[string]int{}}
}

// Admit reports whether an event may be published, and counts it.
func (r *Ration) Admit(e *gpu.Event) bool {
	if !e.Severity.AtLeast(gpu.Warning) || e.Code == gpu.EventRationed || e.Code == gpu.EventStop {
		return true // that a holder must stop is its device's doing, and programs wait for it
	}
	user, owned := Owner(e)
	if !owned {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.used[user]; !known {
		switch named := !isNumber(user); {
		case named && r.named < rationed:
			r.named++
		case !named && len(r.used)-r.named < rationed:
		default:
			user = ""
		}
	}
	r.used[user]++
	if r.timer == nil && !r.closed {
		r.timer = time.AfterFunc(period, r.renew)
	}
	return r.used[user] <= PerMinute
}

// renew begins a new period, and reports what was not admitted in the old one.
func (r *Ration) renew() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	used := r.used
	r.used, r.named, r.timer = map[string]int{}, 0, nil
	r.mu.Unlock()
	for user, n := range used {
		if n > PerMinute {
			r.tell(summary(user, n-PerMinute))
		}
	}
}

// isNumber reports whether a user is known by number alone.
func isNumber(user string) bool {
	_, err := strconv.Atoi(user)
	return err == nil || user == ""
}

// Close ends the ration. It reports nothing any more.
func (r *Ration) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

func summary(user string, left int) gpu.Event {
	whose := user
	if user == "" {
		whose = "users who are not known"
	}
	text := fmt.Sprintf("%s about %%s within a minute: only %d are published", words.Count(left, "more warning"), PerMinute)
	return gpu.Event{
		Time: time.Now(), Code: gpu.EventRationed, Severity: gpu.Warning, User: user,
		Text: fmt.Sprintf(text, whose), Public: fmt.Sprintf(text, "another user"),
		Data: map[string]any{"left_out": left},
	}
}
