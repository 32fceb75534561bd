package service

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/words"
)

// aToken matches who did something with a token, as gpu.By says it.
var aToken = regexp.MustCompile(`(^|\bby )token [A-Za-z0-9_-]+`)

// Tokenless returns who did something to a service, or a text that says by whom it was
// done, for those who may not read the names of tokens.
func Tokenless(text string) string { return aToken.ReplaceAllString(text, "${1}a token") }

// ForFronts returns what a front is told of a service. S has its settings now; nil: it is in no
// settings any more, and goes.
func ForFronts(l *Life, name string, s *Spec) api.FrontService {
	told := api.FrontService{Name: name, State: string(l.State), Epoch: l.Epoch}
	if l.Stopped != nil {
		stopped := *l.Stopped
		stopped.By = Tokenless(stopped.By)
		told.Stopped = &stopped
	}
	if i := l.Instance; i != nil {
		told.Port, told.UID = i.Port, i.Spec.UID
		s = cmp.Or(s, &i.Spec)
		if l.State == Closing && i.Cut {
			told.Cut = fmt.Sprintf("The service %s had to go (%s), and this request did not end within %s. Ask again.", name, Tokenless(i.ForWhom), words.Duration(s.slice()))
		}
	}
	if s == nil {
		return told
	}
	told.Models, told.Hosts, told.Users, told.MaxOpen, told.Ignore = s.Models, s.Hosts, s.Users, s.MaxOpen, s.Ignore
	told.Timeout = s.StartTimeout.Seconds()
	calls := slices.Concat(s.Sleep, s.Wake)
	if l.Instance != nil {
		calls = slices.Concat(calls, l.Instance.Spec.Sleep, l.Instance.Spec.Wake)
	}
	for _, c := range calls {
		if path, _, _ := strings.Cut(c.Path, "?"); !slices.Contains(told.Refuse, path) {
			told.Refuse = append(told.Refuse, path)
		}
	}
	return told
}

// LeaseID returns the id of the lease of an instance, and Run the name of its run.
func (i *Instance) LeaseID() string { return i.Spec.Name + "-" + strconv.FormatInt(i.Number, 10) }

// Run returns the name of the run of an instance.
func (i *Instance) Run() string { return strconv.FormatInt(i.Number, 10) + ".0.1" }

// Left returns how much is left of the time in which an instance has to get ready.
func (i *Instance) Left(now time.Time) time.Duration {
	return max(i.Spec.Timeout()-now.Sub(i.Ordered), 0)
}

// usualTimeout is the time to get ready of a service whose settings say nothing.
const usualTimeout = 10 * time.Minute

// Timeout returns how long a program may take to get ready.
func (s *Spec) Timeout() time.Duration { return cmp.Or(s.StartTimeout, usualTimeout) }

// usualSlice is the time slice of a service whose settings say nothing.
const usualSlice = 5 * time.Minute

func (s *Spec) slice() time.Duration { return cmp.Or(s.Slice, usualSlice) }

// Words returns a command or an environment, in which ${PORT} is the port of the instance.
func (i *Instance) Words(list []string) []string {
	list = slices.Clone(list)
	for n := range list {
		list[n] = strings.ReplaceAll(list[n], "${PORT}", strconv.Itoa(i.Port))
	}
	return list
}
