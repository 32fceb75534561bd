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
	// PerMinute is the most warnings about one user that are published in a minute.
	PerMinute = 60
	// period is the time that a ration covers.
	period = time.Minute
	// rationed is the number of users with a login name that have a ration of their own,
	// and the number of those without. All others share one. A person may have tens of
	// thousands of user ids for containers, which have no names: they take no ration from
	// users with names.
	rationed = 1024
)

// Ration limits the warnings that one user can cause. It does not limit notes, nor
// warnings about devices and the daemon. Its zero value is not usable.
type Ration struct {
	tell func(gpu.Event)

	mu     sync.Mutex
	used   map[string]int // warnings in this period, by user
	named  int            // number of them that have a login name
	timer  *time.Timer    // ends the period; nil if none has begun
	closed bool
}

// NewRation returns a ration for every user. At the end of each minute, it calls tell
// with one event for each user whose warnings it did not admit, which says how many.
func NewRation(tell func(gpu.Event)) *Ration {
	return &Ration{tell: tell, used: map[string]int{}}
}

// Admit reports whether an event may be published, and counts it.
func (r *Ration) Admit(e *gpu.Event) bool {
	if !e.Severity.AtLeast(gpu.Warning) || e.Code == gpu.EventRationed || e.Code == gpu.EventStop {
		return true // its device, not the holder, is the reason to stop, and programs wait for it
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

// renew begins a new period, and reports the warnings that the old one did not admit.
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

// isNumber reports whether a user is known only by number.
func isNumber(user string) bool {
	_, err := strconv.Atoi(user)
	return err == nil || user == ""
}

// Close ends the ration. After that it reports nothing.
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
