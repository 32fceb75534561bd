package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os/user"

	"github.com/berth-gpu/berth/internal/text/words"
)

// services asks a daemon for the services whose programs it runs, and for the front that
// takes the requests for them.
func services(ctx context.Context, c Daemon) (found []Finding) {
	all, err := c.Services(ctx)
	if err != nil { // an older daemon has none
		return nil
	}
	switch f := all.Front; {
	case f == nil:
	case f.Address != "":
		found = append(found, Finding{Topic: "front", Grade: Fine, Text: "takes requests for services on " + f.Address})
	case f.Listen == "":
		found = append(found, Finding{"front", Broken, "does not run, so no service becomes ready: " + f.Why, "berth events --code front says when it began"})
	default:
		found = append(found, Finding{"front", Broken, fmt.Sprintf("takes no requests for services on %s: %s", f.Listen, f.Why), "berth events --code front says when it began"})
	}
	ready := 0
	for _, s := range all.Services {
		if s.State == "ready" {
			ready++
		}
		if s.State == "failed" && s.Failure != nil {
			found = append(found, Finding{"services", Notice, fmt.Sprintf("%s has failed %s: %s", s.Name, words.Count(s.Failure.Count, "time"), s.Failure.Why), "look at its log: berth logs " + words.Shell(s.Name)})
		}
	}
	if len(all.Services) > 0 {
		found = append(found, Finding{Topic: "services", Grade: Fine, Text: fmt.Sprintf("%s with a program, %d ready", words.Count(len(all.Services), "service"), ready)})
	}
	return found
}

// frontAccount says whether a daemon of root could run the front: it needs a user without
// rights for it.
func (d *Doctor) frontAccount() []Finding {
	c := &d.Settings.Config
	wanted := c.Front.Listen != ""
	for _, s := range c.Services {
		wanted = wanted || s.Runs()
	}
	name := cmp.Or(c.Front.User, "berth-front")
	if !wanted || d.UID != 0 {
		return nil
	}
	if _, err := user.Lookup(name); err == nil {
		return nil
	}
	return []Finding{{"front", Broken, fmt.Sprintf("there is no user %s, so no front can run, and no service becomes ready", name),
		fmt.Sprintf("make it: sudo useradd --system --user-group --no-create-home --shell /usr/sbin/nologin %s", name)}}
}
