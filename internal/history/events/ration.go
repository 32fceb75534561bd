package events

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	// PerMinute is the most warnings about one user that are published in a minute.
	PerMinute = 60
	// PerPod is the most warnings about the lease of one pod that are published in a
	// minute, and about faults of programs on one device whose user is not known.
	PerPod = 12
	// period is the time that a ration covers.
	period = time.Minute
	// rationed is the number of users with a login name that have a ration of their own,
	// and the number of those without. All others share one. A person may have tens of
	// thousands of user ids for containers, which have no names: they take no ration from
	// users with names. As many pods have one of their own; all others share that of
	// their driver.
	rationed = 1024
)

// Ration limits the warnings that one user can cause. It does not limit notes, nor
// warnings about devices and the daemon. Its zero value is not usable.
type Ration struct {
	tell func(gpu.Event)

	mu     sync.Mutex
	used   map[subject]int // warnings in this period
	named  int             // number of them about users with a login name
	pods   int             // number of them about pods
	timer  *time.Timer     // ends the period; nil if none has begun
	closed bool
}

// subject is whom warnings are about: a user, or the lease of a pod. A cluster's driver
// holds the leases of all pods, and one pod must not silence the others. Faults of programs
// whose user is not known are about their device. Alerts about a user have a ration of
// their own, so that no user can hide them behind other warnings.
type subject struct {
	user, lease, gpu string
	alert            bool
}

// subjectOf returns whom an event is about, and false if it is about a device or the
// daemon.
func subjectOf(e *gpu.Event) (s subject, owned bool) {
	s.user, owned = Owner(e)
	switch {
	case s.user == access.TokenUser(access.ClusterToken):
		s.lease = e.Lease
	case s.user == "" && e.Code == gpu.EventDeviceFault:
		s.gpu = e.GPU
	}
	s.alert = e.Code == gpu.EventAlert
	return s, owned
}

// most returns how many warnings about a subject are published in a period.
func (s subject) most() int {
	if s.lease != "" || s.gpu != "" {
		return PerPod
	}
	return PerMinute
}

// NewRation returns a ration for every user and pod. At the end of each minute, it calls tell
// with one event for each of them whose warnings it did not admit, which says how many.
func NewRation(tell func(gpu.Event)) *Ration {
	return &Ration{tell: tell, used: map[subject]int{}}
}

// Admit reports whether an event may be published, and counts it.
func (r *Ration) Admit(e *gpu.Event) bool {
	if !e.Severity.AtLeast(gpu.Warning) || e.Code == gpu.EventRationed || e.Code == gpu.EventStop {
		return true // its device, not the holder, is the reason to stop, and programs wait for it
	}
	about, owned := subjectOf(e)
	if !owned {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.used[about]; !known {
		about = r.place(about)
	}
	r.used[about]++
	if r.timer == nil && !r.closed {
		r.timer = time.AfterFunc(period, r.renew)
	}
	return r.used[about] <= about.most()
}

// place returns whose ration a subject takes that has none yet: one of its own, or a
// shared one if there are too many.
func (r *Ration) place(about subject) subject {
	if about.lease != "" {
		if r.pods < rationed {
			r.pods++
			return about
		}
		if about.lease = ""; r.used[about] > 0 {
			return about
		}
	}
	switch named := !isNumber(about.user); {
	case named && r.named < rationed:
		r.named++
	case !named && len(r.used)-r.named-r.pods < rationed:
	default:
		about.user = ""
	}
	return about
}

// renew begins a new period, and reports the warnings that the old one did not admit.
func (r *Ration) renew() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	used := r.used
	r.used, r.named, r.pods, r.timer = map[subject]int{}, 0, 0, nil
	r.mu.Unlock()
	for about, n := range used {
		if n > about.most() {
			r.tell(summary(about, n-about.most()))
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

func summary(about subject, left int) gpu.Event {
	whose := about.user
	switch {
	case about.lease != "":
		whose = "the lease " + about.lease
	case about.gpu != "":
		whose = "programs on " + about.gpu
	case about.user == "":
		whose = "users who are not known"
	}
	text := fmt.Sprintf("%s about %%s within a minute: only %d are published", words.Count(left, "more warning"), about.most())
	return gpu.Event{
		Time: time.Now(), Code: gpu.EventRationed, Severity: gpu.Warning, GPU: about.gpu, User: about.user, Lease: about.lease,
		Text: fmt.Sprintf(text, whose), Public: fmt.Sprintf(text, "another user"),
		Data: map[string]any{"left_out": left},
	}
}
